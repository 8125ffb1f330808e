package host

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/candor-project/candor/cgroup"
)

// TestPlaceHelper: a placed helper gives a container with a whole limit a quota, also after a recovery of the state. The helper is no
// process of the container and survives its end, also if the state does not record the helper.
func TestPlaceHelper(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	helper := exec.Command("sleep", "1000")
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { helper.Process.Kill(); helper.Wait() }()
	pid := helper.Process.Pid
	web := l.must(ask("web", "1"), "wait")
	if err := l.PlaceHelper(ctx, "web", pid); errors.Is(err, cgroup.ErrNoPlacement) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	check := func(step string) {
		t.Helper()
		k, err := l.readGroup("web")
		if err != nil || k.settings.Quota != web.Period {
			t.Errorf("%s: %+v, %v; want a quota of a CPU", step, k, err)
		}
		if is, err := k.Contains(pid); is || err != nil {
			t.Errorf("%s: the helper is a process of the container: %v", step, err)
		}
	}
	check("placed")
	l.nudge()
	check("after an operation")
	if err := l.store.SetAside(); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	check("after a recovery")
	if _, _, err := l.Resize(ctx, "web", 500, 0); err != nil {
		t.Fatal(err)
	}
	if k, err := l.readGroup("web"); err != nil || k.settings.Quota != web.Period/2 {
		t.Errorf("resized: %+v, %v", k, err)
	}
	if err := l.Release(ctx, "web", true); err != nil {
		t.Fatal(err)
	}
	free := l.must(ask("free", "1"), "wait")
	if err := l.tree.Group("free").PlaceHelper(pid); err != nil { // as if candor had been killed before it saved the state
		t.Fatal(err)
	}
	free.stop()
	if err := l.Release(ctx, "free", false); err != nil {
		t.Fatal(err)
	}
	if names, err := l.tree.Groups(); err != nil || len(names) > 0 {
		t.Errorf("groups remain: %v, %v", names, err)
	}
	if err := helper.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the helper has ended: %v", err)
	}
	if err := l.PlaceHelper(ctx, "none", pid); err == nil {
		t.Error("an unknown container was accepted")
	}
}
