package host

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A pid that is used again is another process, and a zombie is none.
func TestAlive(t *testing.T) {
	self, err := ProcessOf(os.Getpid())
	if err != nil || !self.Alive() {
		t.Errorf("%+v, %v", self, err)
	}
	for _, gone := range []Process{{}, {PID: -1}, {self.PID, self.Start + 1}, {1 << 30, self.Start}, dead(t)} {
		if gone.Alive() {
			t.Errorf("%+v is said to live", gone)
		}
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "HOST_TEST_ROLE=none")
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
			t.Fatal("a zombie is said to live")
		}
	}
	child.Wait()
}

func TestReleaseAtLeast(t *testing.T) {
	for release, want := range map[string]bool{"6.2.0": true, "6.1.0-56-cloud-amd64": false, "5.15": false, "7.0-rc1": true, "6.18.44-fc": true, "": false, "x.y": false} {
		if releaseAtLeast(release, 6, 2) != want {
			t.Errorf("%q: %t", release, !want)
		}
	}
}
