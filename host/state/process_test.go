package state

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A reused pid is another process, and a zombie does not run.
func TestAlive(t *testing.T) {
	self, err := ProcessOf(os.Getpid())
	if err != nil || !self.Alive() {
		t.Errorf("%+v, %v", self, err)
	}
	for _, gone := range []Process{{}, {PID: -1}, {self.PID, self.Start + 1}, {1 << 30, self.Start}, dead(t)} {
		if gone.Alive() {
			t.Errorf("%+v counts as living", gone)
		}
	}
	child := exec.Command("true")
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	zombie, err := ProcessOf(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 1)) // the end
	for begin := time.Now(); zombie.Alive(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("a zombie counts as living")
		}
	}
	child.Wait()
}

// dead returns a process that has ended.
func dead(t *testing.T) Process {
	t.Helper()
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := ProcessOf(child.Process.Pid)
	child.Process.Kill()
	child.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
