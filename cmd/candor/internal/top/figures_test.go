package top

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/view"
)

func near[N ~float64](a, b N) bool { return math.Abs(float64(a-b)) < 1e-9 }

func TestBetween(t *testing.T) {
	before, after := small(t)
	f := Between(before, after, "")
	if f.During != second || len(f.Rows) != 3 || len(f.CPUs) != 4 {
		t.Fatalf("%+v", f)
	}
	for i, want := range []struct {
		name                           string
		letter                         string
		use                            float64
		limit, throttled, throttledAll Share
	}{
		{"default/web-0/app", "A", 1.2, 0.8, 0.3, 0.3},
		{"default/web-0/log", "", 0.25, 0.5, 0, 0},
		{"backup", "", 0.9, Unknown, Unknown, Unknown},
	} {
		r := &f.Rows[i]
		if r.Name != want.name || r.Letter != want.letter || !r.Used || !near(r.Use, want.use) || !near(r.LimitShare, want.limit) ||
			!near(r.Throttled, want.throttled) || !near(r.ThrottledAll, want.throttledAll) || r.Condition != "running" {
			t.Errorf("%+v; want %+v", r, want)
		}
	}
	for cpu, want := range []Share{0, 0.25, 0.5, 0.75} {
		if got := f.CPUs[cpu].Busy; !near(got, want) {
			t.Errorf("CPU %d: busy %v, want %v", cpu, got, want)
		}
	}
	if f := Between(before, before, ""); f.Rows[0].Used || f.CPUs[0].Busy.Known() {
		t.Errorf("readings of the same time: %+v", f.Rows[0])
	}
}

// TestContainersStartAndEnd: containers that start, end or restart under the same name between two readings
// have no rates.
func TestContainersStartAndEnd(t *testing.T) {
	w := newWorld(t, "core:4 pu:1")
	w.add("web", hybrid.Sensitive, 1000).uses(5*second, 100, 50)
	w.add("log", hybrid.Flexible, 500).uses(second, 100, 50)
	before := w.now()
	w.pass(second)
	w.container("web").Stat.CPU = second / 2 // a new cgroup with the same name
	plan, err := w.node.PlanRelease("log")
	if err == nil {
		err = w.node.Commit(plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Containers = slices.DeleteFunc(w.Containers, func(c Container) bool { return c.ID == "log" })
	w.add("new", hybrid.Flexible, 500).uses(second/4, 10, 1)
	f := Between(before, w.now(), "log")
	if len(f.Rows) != 2 || f.Inside != nil {
		t.Fatalf("%+v", f)
	}
	for _, r := range f.Rows {
		if r.Used || r.LimitShare.Known() || r.Throttled.Known() {
			t.Errorf("%s has rates without two readings of its cgroup: %+v", r.Name, r)
		}
	}
	if got := f.Rows[1].ThrottledAll; !near(got, 0.1) {
		t.Errorf("new: throttled %v since its start, want 0.1", got)
	}
	w.container("web").Exists = false
	if r := Between(before, w.now(), "").Rows[0]; r.Used || r.ThrottledAll.Known() {
		t.Errorf("without a cgroup: %+v", r)
	}
}

// TestForeignUse: CPU time on an exclusive CPU that its container has not used counts as foreign use.
func TestForeignUse(t *testing.T) {
	w := newWorld(t, "core:4 pu:1")
	w.add("web", hybrid.Sensitive, 1000)
	own := w.Containers[0].Exclusive.First()
	read := func(own time.Duration) *Reading {
		w.Containers[0].Stat.PerCPU = []time.Duration{own, own, own, own}
		return w.now()
	}
	before := read(0)
	w.pass(second)
	t0 := w.CPUs[own]
	t0.Programs += 700 * time.Millisecond
	w.CPUs[own] = t0
	f := Between(before, read(300*time.Millisecond), "")
	if len(f.ForeignUses) != 1 || f.ForeignUses[0].CPUs.First() != own || !f.CPUs[own].HasForeign {
		t.Fatalf("%+v", f.ForeignUses)
	}
	if got := f.ForeignUses[0].Milli; got < 390 {
		t.Errorf("foreign processes use %v of CPU %d, want at least 390m", got, own)
	}
	if f := Between(before, read(700*time.Millisecond), ""); own == 0 && len(f.ForeignUses) != 0 {
		t.Errorf("the container used all of the time: got %+v, want no foreign use", f.ForeignUses)
	}
}

func TestThreads(t *testing.T) {
	w := newWorld(t, "core:2 pu:1")
	thread := func(id int, spent time.Duration) Thread {
		return Thread{100, procfs.Thread{ID: id, Name: "t", Time: spent}}
	}
	c := w.add("web", hybrid.Sensitive, 1000)
	c.Threads = []Thread{thread(1, second), thread(2, second), thread(3, 9*second)}
	before := w.now()
	w.pass(2 * second)
	c.Threads = []Thread{thread(1, 2*second), thread(2, 3*second), thread(3, second), thread(4, second)}
	f := Between(before, w.now(), "web")
	if f.Inside == nil || f.Inside.Row.ID != "web" {
		t.Fatalf("%+v", f.Inside)
	}
	var got []int
	for _, use := range f.Inside.Threads {
		got = append(got, use.ID)
	}
	if !slices.Equal(got, []int{2, 1, 3, 4}) {
		t.Errorf("sorted by use: %v", got)
	}
	if uses := f.Inside.Threads; !near(uses[0].Use, 1) || !near(uses[1].Use, 0.5) || uses[2].Use.Known() || uses[3].Use.Known() {
		t.Errorf("%+v", uses)
	}
}

// TestAnyCounters: for any values of the kernel counters, rates are finite, and shares are 0 to 1 or unknown.
func TestAnyCounters(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, "core:4 pu:1")
		w.add("web", hybrid.Sensitive, 1500)
		w.add("log", hybrid.Flexible, 0)
		count := rapid.Uint64Max(1 << 40)
		turn := func() *Reading {
			w.At = w.At.Add(time.Duration(rapid.Int64Range(-1, int64(second)).Draw(rt, "passed")))
			for i := range w.Containers {
				c := &w.Containers[i]
				c.Exists = rapid.Bool().Draw(rt, "exists")
				c.Stat.CPU = time.Duration(count.Draw(rt, "used"))
				c.Stat.Periods = count.Draw(rt, "periods")
				c.Stat.Throttled = rapid.Uint64Max(c.Stat.Periods).Draw(rt, "throttled")
			}
			for cpu := range w.CPUs {
				w.CPUs[cpu] = procfs.CPUTime{Programs: time.Duration(count.Draw(rt, "busy")), Idle: time.Duration(count.Draw(rt, "idle"))}
			}
			return w.now()
		}
		f := Between(turn(), turn(), "web")
		for _, r := range f.Rows {
			if math.IsNaN(r.Use) || math.IsInf(r.Use, 0) || r.Use < 0 || r.Used && w.At.IsZero() {
				rt.Errorf("%s uses %v", r.Name, r.Use)
			}
			if r.ThrottledAll > 1 || math.IsNaN(float64(r.LimitShare)) || math.IsNaN(float64(r.Throttled)) {
				rt.Errorf("%+v", r)
			}
		}
		for _, c := range f.CPUs {
			if c.Busy > 1 || c.Busy < 0 && c.Busy != Unknown {
				rt.Errorf("CPU %d: busy %v", c.CPU, c.Busy)
			}
		}
		u := UI{Interval: second}
		u.Draw(f, Size{Columns: 80, Rows: 24})
	})
}

// TestSeenNotes: the screen ends with the first note on the CPUs that a container sees, unless the host has a warning. Printed
// samples have the notes beside the table.
func TestSeenNotes(t *testing.T) {
	w := newWorld(t, "core:4 pu:1")
	for _, name := range []string{"web", "db", "log"} {
		w.add(name, hybrid.Sensitive, 1000)
	}
	before := w.now()
	w.pass(second)
	for i := range 2 {
		w.Containers[i].SeenCPUs = view.Summary{Affinity: 1, Files: 4, Note: "no view is mounted: restart it to mount the view"}
	}
	after := w.now()
	f := Between(before, after, "")
	const first = "web sees 1/4: no view is mounted: restart it to mount the view"
	if notes := f.SeenNotes(); len(notes) != 2 || notes[0] != first {
		t.Errorf("notes %q", notes)
	}
	if text := screen(&UI{}, f, Size{100, 24, false}); !strings.Contains(text, "\n"+first+" (and 1 more note)\nq quit ") {
		t.Error(text)
	}
	after.Note = "the state is gone"
	if f := Between(before, after, ""); f.Note != after.Note {
		t.Errorf("note %q, want the host's warning", f.Note)
	}
}
