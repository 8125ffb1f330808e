package launch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// A program started by Start has the given streams, environment and CPUs. Clear kills its remaining processes and
// leaves nothing behind.
func TestStartAndClear(t *testing.T) {
	l := newLab(t)
	ctx := context.Background()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	a := host.Allocation{
		Request: hybrid.Request{ID: "one", Limit: 500},
		Spec:    spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewFull, OnResize: "none"},
	}
	script := "echo $WORD $(nproc); sleep 1000 >/dev/null 2>&1 & exit 3"
	p := Program{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"WORD=hello", "PATH=/usr/bin:/bin"}}
	child, err := Start(ctx, l.Host, a, p, [3]*os.File{null, write, write})
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	output, err := io.ReadAll(read)
	if err != nil || strings.TrimSpace(string(output)) != "hello 1" {
		t.Errorf("printed %q, %v; want hello 1", output, err)
	}
	if end, err := child.Wait(); err != nil || end.ExitCode() != 3 {
		t.Errorf("it ended with %v, %v; want exit status 3", end, err)
	}
	if err := l.ReleaseOwn(ctx, "one", true); !errors.Is(err, host.ErrPopulated) {
		t.Errorf("release: %v, want host.ErrPopulated: sleep still runs", err)
	}
	if err := l.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if exists, err := l.OwnGroup("one").Exists(); err != nil || exists {
		t.Errorf("the group exists: %v, %v; want none", exists, err)
	}
	if _, err := os.Stat(l.stateDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("state directory: %v, want none", err)
	}
	if err := l.Clear(ctx); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// A refused allocation starts no program.
func TestStartRefused(t *testing.T) {
	l := newLab(t)
	streams := [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
	a := host.Allocation{
		Request: hybrid.Request{ID: "big", Limit: hybrid.MaxLimit},
		Spec:    spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewAffinity, OnResize: "none"},
	}
	if _, err := Start(context.Background(), l.Host, a, Program{Path: "/bin/true", Args: []string{"true"}}, streams); !errors.Is(err, hybrid.ErrNoCapacity) {
		t.Errorf("%v, want ErrNoCapacity", err)
	}
	a.Period = 0
	if _, err := Start(context.Background(), l.Host, a, Program{}, streams); !errors.Is(err, host.ErrBadSpec) {
		t.Errorf("%v, want host.ErrBadSpec", err)
	}
}

// A program started with StartIn has the view of the first program, is killed with it, and needs its cgroup.
func TestStartIn(t *testing.T) {
	l := newLab(t)
	ctx := context.Background()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	a := host.Allocation{
		Request: hybrid.Request{ID: "one", Limit: 500},
		Spec:    spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewFull, OnResize: "none"},
	}
	first, err := Start(ctx, l.Host, a, Program{Path: "/bin/sleep", Args: []string{"sleep", "1000"}}, [3]*os.File{null, null, null})
	if err != nil {
		t.Fatal(err)
	}
	second := Program{Path: "/bin/sh", Args: []string{"sh", "-c", "grep -c ^processor /proc/cpuinfo; grep -c . /sys/fs/cgroup/cpuset$0/one/cgroup.procs /sys/fs/cgroup$0/one/cgroup.procs 2>/dev/null; exec sleep 1000 >&-", l.parent}}
	other, err := StartIn(l.Host, first, second, [3]*os.File{null, write, null})
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	output, err := io.ReadAll(read)
	if words := strings.Fields(string(output)); err != nil || len(words) != 2 || words[0] != "1" || !strings.HasSuffix(words[1], "/cgroup.procs:3") {
		t.Errorf("printed %q, %v; want 1 CPU, and three processes in the group: the first, it and grep", output, err)
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Child{first, other} {
		if end, err := c.Wait(); err != nil || end.Success() {
			t.Errorf("it ended with %v, %v; want killed", end, err)
		}
	}
	if err := l.Release(ctx, "one", true); err != nil {
		t.Fatal(err)
	}
	if _, err := StartIn(l.Host, first, second, [3]*os.File{null, null, null}); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("without the group: %v, want ErrNoGroup", err)
	}
}
