package timescale

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/cgroup"
)

// TestManyGroups: a small file with many groups, each with a peak in a long time span, takes bounded memory
// per group.
func TestManyGroups(t *testing.T) {
	const groups = 1 << 13
	var file bytes.Buffer
	w, err := record.NewWriter(&file, record.Header{Interval: 10 * ms, CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	var readings []record.Reading
	for range groups {
		n, err := w.Group(record.Group{Above: "none"}, cgroup.Usage{})
		if err != nil {
			t.Fatal(err)
		}
		readings = append(readings, record.Reading{Group: n, Usage: cgroup.Usage{CPU: time.Hour}})
	}
	w.Tick(10*ms, readings)
	readings[0].CPU += ms
	w.Tick(1000*time.Hour, readings)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	size := file.Len()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s, err := Read(&file)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err != nil || len(s.Groups) != groups {
		t.Fatal(err)
	}
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / groups; each > 10_000 {
		t.Errorf("%d bytes of memory for each group of a file of %d bytes", each, size)
	}
	runtime.KeepAlive(s)
}

// TestNames: ancestorOf returns the last group with the name before a group, else the first after it, and
// never the group itself.
func TestNames(t *testing.T) {
	groups := []record.Group{
		{Name: "pod"}, {Name: "web", Above: "pod"}, {Name: "pod"}, {Name: "web", Above: "pod"},
		{Name: "early", Above: "late"}, {Name: "late"}, {Name: "own", Above: "own"}, {Name: "lost", Above: "none"},
	}
	all := numberGroups(groups)
	for of, want := range []int{-1, 0, -1, 2, 5, -1, -1, -1} {
		if got := all.ancestorOf(groups, of); got != want {
			t.Errorf("above %d: %d, want %d", of, got, want)
		}
	}
}
