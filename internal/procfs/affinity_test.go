package procfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// TestThreadAffinity: the threads of a process have its CPUs together, even if its first thread has only one of them.
func TestThreadAffinity(t *testing.T) {
	pid := os.Getpid()
	before, err := Affinity(pid)
	if err != nil {
		t.Fatal(err)
	}
	var all, first unix.CPUSet
	for cpu := range before.All() {
		all.Set(cpu)
	}
	first.Set(before.First())
	if err := unix.SchedSetaffinity(pid, &first); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(pid, &all)
	if cpus, err := ThreadAffinity(pid, 64); err != nil || cpus != before {
		t.Errorf("CPUs %v, %v; want %v", cpus, err, before)
	}
	if cpus, err := ThreadAffinity(pid, 1); err != nil || cpus != before.Lowest(1) {
		t.Errorf("the first thread: CPUs %v, %v; want %v", cpus, err, before.Lowest(1))
	}
	if _, err := ThreadAffinity(-1, 64); err == nil {
		t.Error("no process: no error")
	}
}

func TestAffinity(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := Affinity(0)
	if err != nil || before.IsEmpty() {
		t.Fatal(before, err)
	}
	status, err := ReadStatus(fmt.Sprintf("/proc/%d", unix.Gettid()))
	if err != nil || status.CPUs != before {
		t.Errorf("%v, its status has %v, %v", before, status.CPUs, err)
	}
	var all, last unix.CPUSet
	for cpu := range before.All() {
		all.Set(cpu)
	}
	last.Set(before.Last())
	if err := unix.SchedSetaffinity(0, &last); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &all)
	if now, err := Affinity(unix.Gettid()); err != nil || now != cpuset.Of(before.Last()) {
		t.Errorf("on CPU %d alone: %v, %v", before.Last(), now, err)
	}
	gone := exec.Command("/proc/self/exe", "-test.run=^$")
	gone.Env = os.Environ()
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := Affinity(gone.Process.Pid); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a process that has ended: %v", err)
	}
}
