package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"
)

// TestCPULimits changes the quota and the weight of a pod's group; the settings of a nested group stay.
func TestCPULimits(t *testing.T) {
	tr := tree(t)
	cpus, _, err := tr.Effective()
	must(t, err)
	const period = 100 * time.Millisecond
	group(t, tr, "pod", Settings{CPUs: cpus, Quota: period}, "")
	below := treeBelow(t, fmt.Sprintf("/candor-test-%d/pod", os.Getpid()), Cgroupfs)
	inside := Settings{CPUs: cpus, Quota: period}
	web, _ := group(t, below, "web", inside, "sleep")
	pod := tr.EngineGroup("pod", "/candor-test-"+fmt.Sprint(os.Getpid())+"/pod")
	for _, want := range []CPULimits{
		{Quota: 1024 * period, Period: period, Weight: 150},
		{Quota: period, Period: period, Weight: 2},
		{Period: period, Weight: 10000},
		{Quota: 2 * period, Period: period, Weight: tr.PodWeight(1000)},
	} {
		must(t, pod.SetCPULimits(want))
		if got, err := pod.CPULimits(); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		same(t, web, inside)
	}
	if nested, processes, err := pod.Members(); err != nil || len(nested) != 1 || nested[0] != "web" || processes != 0 {
		t.Errorf("Members = %v, %d, %v", nested, processes, err)
	}
	if _, processes, err := web.Members(); err != nil || processes != 1 {
		t.Errorf("Members of web: %d processes, %v", processes, err)
	}
	err = pod.SetCPULimits(CPULimits{Quota: period / 2, Period: period, Weight: 2})
	if refused := errors.Is(err, unix.EINVAL); refused != (tr.Version() == 1) {
		t.Errorf("a quota below the quota of a nested group: %v", err)
	}
	if _, err := tr.EngineGroup("pod", "/candor-test-none/pod").CPULimits(); !errors.Is(err, ErrNoGroup) {
		t.Errorf("no group: %v", err)
	}
}

// TestFingerprint: the fingerprint changes with each change of the group, and only then.
func TestFingerprint(t *testing.T) {
	tr := tree(t)
	cpus, _, err := tr.Effective()
	must(t, err)
	g, _ := group(t, tr, "pod", Settings{CPUs: cpus}, "")
	seen := map[string]bool{}
	for _, change := range []func() error{
		func() error { return nil },
		func() error { return g.Apply(Settings{CPUs: cpus, Quota: time.Second}) },
		func() error { return g.Apply(Settings{CPUs: cpus, Quota: time.Second, Weight: 5000}) },
		func() error { return os.Mkdir(g.dir(tr.cpu)+"/web", 0o755) },
	} {
		must(t, change())
		for range 2 {
			now, err := g.Fingerprint()
			must(t, err)
			seen[now] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d different fingerprints, want 4: %v", len(seen), seen)
	}
	if _, err := tr.Group("none").Fingerprint(); !errors.Is(err, ErrNoGroup) {
		t.Errorf("no group: %v", err)
	}
}

// TestPodWeight compares with weights that the kubelet computed.
func TestPodWeight(t *testing.T) {
	for _, test := range []struct {
		weight int
		v1, v2 int64
	}{{0, 2, 1}, {1, 2, 1}, {10, 10, 1}, {100, 102, 4}, {400, 409, 16}, {1000, 1024, 39}, {1500, 1536, 59}, {1 << 40, 262144, 10000}} {
		for version, want := range map[bool]int64{false: test.v1, true: test.v2} {
			tr := &Tree{cpu: &hierarchy{v2: version}}
			if got := tr.PodWeight(test.weight); got != want {
				t.Errorf("v2 %v, weight %d: %d, want %d", version, test.weight, got, want)
			}
		}
	}
}

// TestAnnotation: an annotation belongs to a single group, and a recreated group has none.
func TestAnnotation(t *testing.T) {
	tr := tree(t)
	cpus, _, err := tr.Effective()
	must(t, err)
	a, _ := group(t, tr, "a", Settings{CPUs: cpus}, "")
	b, _ := group(t, tr, "b", Settings{CPUs: cpus}, "")
	for _, text := range []string{"quota 5", "", "x"} {
		must(t, a.SetAnnotation(text))
		if got, err := a.Annotation(); err != nil || got != text {
			t.Errorf("Annotation = %q, %v; want %q", got, err, text)
		}
	}
	if got, err := b.Annotation(); err != nil || got != "" {
		t.Errorf("without a record: %q, %v", got, err)
	}
	must(t, a.Remove())
	must(t, a.Create(Settings{CPUs: cpus}, 0))
	if got, err := a.Annotation(); err != nil || got != "" {
		t.Errorf("recreated group: %q, %v; want no annotation", got, err)
	}
}

// TestCPULimitsOfSlice: a slice keeps its quota and weight when a reload of systemd rewrites its files.
func TestCPULimitsOfSlice(t *testing.T) {
	if !runsSystemd() {
		t.Skip("systemd does not run this machine")
	}
	slice := fmt.Sprintf("candortest%d-pod1.slice", os.Getpid())
	tr := treeBelow(t, fmt.Sprintf("candortest%d.slice", os.Getpid()), Systemd)
	start := func(ctx context.Context, conn *systemd.Conn, result chan<- string) error {
		_, err := conn.StartTransientUnitContext(ctx, slice, "fail", []systemd.Property{
			property("CPUQuotaPerSecUSec", uint64(microsPerSecond)), property("CPUWeight", uint64(39)),
		}, result)
		return err
	}
	must(t, tr.bus.runJob(start))
	t.Cleanup(func() { must(t, tr.stopUnit(slice)) })
	path, err := expandSlice(slice)
	must(t, err)
	const period = 100 * time.Millisecond
	pod := tr.EngineGroup("pod", path)
	for _, want := range []CPULimits{
		{Quota: period, Period: period, Weight: 39},
		{Quota: 1024 * period, Period: period, Weight: 16},
		{Quota: 150 * time.Millisecond, Period: period, Weight: 59},
	} {
		must(t, pod.SetCPULimits(want))
		reload(t, tr)
		if got, err := pod.CPULimits(); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}
