package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// An engineIsolationLab has a flexible container of an engine, whose files refuse accesses.
type engineIsolationLab struct {
	*engine
	usable []int
}

// The cgroup of the neighbor, and the container that the operations change.
const (
	neighborGroup = "neighbor1"
	subjectName   = "web"
)

func newEngineIsolationLab(t *testing.T) *engineIsolationLab {
	l := newLab(t)
	e := &engineIsolationLab{newEngine(l), l.needCPUs(2)}
	a := flexible(neighbor, "0.5")
	a.View, a.Burst = spec.ViewFull, spec.Burst{Time: 10 * time.Millisecond}
	a = e.ask(a, neighborGroup)
	g, err := l.Admit(ctx, a, 0)
	if err != nil {
		t.Fatal(err)
	}
	e.run(neighborGroup, settingsOf(g))
	if err := l.ConfirmStart(ctx, a, 0); err != nil {
		t.Fatal(err)
	}
	return e
}

// drift gives the neighbor settings that differ from its grant.
func (e *engineIsolationLab) drift(t *testing.T, cpus cpuset.Set) {
	t.Helper()
	err := e.engine.tree.Group(neighborGroup).Apply(cgroup.Settings{CPUs: cpus, Quota: 70 * time.Millisecond, Period: 50 * time.Millisecond, Burst: 5 * time.Millisecond, Weight: 3000})
	if err == nil {
		err = view.Write(e.store.ViewDir(neighbor), cpus)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.Host.degraded = degradedSettings{}
}

// inject makes the writes to a file of the neighbor fail.
func (e *engineIsolationLab) inject(file string, errno unix.Errno) (remove func()) {
	return kernelfs.InjectFault(func(access kernelfs.Access, path string) error {
		dir := filepath.Base(filepath.Dir(path))
		if access == kernelfs.WriteAccess && filepath.Base(path) == file && (dir == neighbor || dir == neighborGroup) {
			return errno
		}
		return nil
	})
}

// TestIsolationOfEngines refuses each write to each file of an engine's container. Meanwhile another
// container is admitted, started, resized and stopped, and the plugin synchronizes and repairs.
func TestIsolationOfEngines(t *testing.T) {
	e := newEngineIsolationLab(t)
	errnos := isolationErrnos
	if isSlow() {
		errnos = []unix.Errno{unix.EBUSY}
	}
	for _, file := range e.isolationFiles() {
		for _, errno := range errnos {
			for _, cpus := range []cpuset.Set{cpuset.Of(e.usable...), cpuset.Of(e.usable[0])} {
				t.Run(fmt.Sprintf("%s %s on %v", file, unix.ErrnoName(errno), cpus), func(t *testing.T) {
					e.drift(t, cpus)
					remove := e.inject(file, errno)
					defer func() { remove(); e.Host.degraded = degradedSettings{}; e.nudge() }()
					e.life(t)
				})
			}
		}
	}
}

// life runs a sensitive container of another pod from its admission to its end.
func (e *engineIsolationLab) life(t *testing.T) {
	a := e.ask(ask(subjectName, "1"), "web1")
	a.Engine.Pod, a.Engine.Sandbox = "uid2", "box2"
	h := e.Host
	g, err := h.Admit(ctx, a, 0)
	if stuck := new(stuckError); errors.As(err, &stuck) && stuck.name == neighbor && !strings.Contains(err.Error(), "\n") {
		if has := *e.has(neighborGroup); has.Count() < len(e.usable)-1 {
			t.Errorf("refused, and %s is on %v only: %v", neighbor, has, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("admit: %v", err)
	}
	if has := *e.has(neighborGroup); has.Overlaps(&g.Exclusive) {
		t.Errorf("%s is on %v, exclusive CPUs %v of %s", neighbor, has, g.Exclusive, subjectName)
	}
	stop := e.run("web1", settingsOf(g))
	defer func() {
		stop()
		if err := e.engine.tree.Group("web1").End(); err != nil {
			t.Error(err)
		}
		if err := h.Stopped(ctx, subjectName, a.Engine.Cgroup); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := h.EndSandbox(ctx, "uid2", "box2"); err != nil {
			t.Errorf("end of the pod: %v", err)
		}
	}()
	if err := h.ConfirmStart(ctx, a, 0); err != nil {
		t.Errorf("confirm start: %v", err)
	}
	if _, _, err := h.ResizeOf(ctx, subjectName, a.Engine.Cgroup, 500, 0); err != nil {
		t.Errorf("resize: %v", err)
	}
	if err := h.Reconcile(ctx); err != nil {
		t.Errorf("repair: %v", err)
	}
	y := e.ask(flexible(neighbor, "0.5"), neighborGroup)
	a.Limit = 500
	if err := h.Sync(ctx, []Allocation{y, a}, []string{"box1", "box2"}); err != nil {
		t.Errorf("synchronize: %v", err)
	}
	if has := *e.has("web1"); has.Count() != 1 {
		t.Errorf("%s is on %v", subjectName, has)
	}
}
