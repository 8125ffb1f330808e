package simulate_test

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/simulate"
	"github.com/candor-project/candor/trace"
)

// A checker is a *testing.T or a *rapid.T.
type checker interface {
	Helper()
	Fatal(...any)
	Context() context.Context
}

// selectedBits returns a number with a bit per container: 1 if the container is sensitive. Container i runs alone, for a duration of 1<<i,
// so that the sensitive CPU time has these bits.
func selectedBits(t checker, s simulate.Selection, seed uint64, containers []trace.Event) uint64 {
	t.Helper()
	list := []trace.Event{machine(0, 0, 1000)}
	for i, e := range containers {
		e.Time, e.CPU, e.Kind, e.Container = 1<<i, 1000, trace.Submit, uint32(i)
		list = append(list, e, trace.Event{Time: 2 << i, Kind: trace.End, Container: e.Container})
	}
	setting := setting(list)
	setting.Seed = seed
	r, err := simulate.Run(t.Context(), setting, simulate.Point{Algorithm: hybrid.Paper, Sensitive: s})
	if err != nil {
		t.Fatal(err)
	}
	span := float64(list[len(list)-1].Time)
	return uint64(r.SensitiveMilli/1000*span + 0.5)
}

// jobs returns n containers of different jobs and tasks.
func jobs(n int) []trace.Event {
	list := make([]trace.Event, n)
	for i := range list {
		list[i] = trace.Event{Job: uint64(i / 2), Task: uint32(i % 2)}
	}
	return list
}

func TestSharesAreNested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		a, b := rapid.Float64Range(0, 1).Draw(t, "a"), rapid.Float64Range(0, 1).Draw(t, "b")
		containers := jobs(40)
		less := selectedBits(t, simulate.Selection{Share: min(a, b)}, seed, containers)
		more := selectedBits(t, simulate.Selection{Share: max(a, b)}, seed, containers)
		if less&^more != 0 {
			t.Fatalf("%b at %v is not within %b at %v", less, min(a, b), more, max(a, b))
		}
	})
}

func TestShares(t *testing.T) {
	containers := make([]trace.Event, 20000)
	list := []trace.Event{machine(0, 0, 1000)}
	for i := range containers {
		e := submit(1, 0, 100)
		e.Job, e.Task = uint64(i/100), uint32(i%100)
		list = append(list, e, end(1, 0))
	}
	for _, share := range []float64{0, 0.1, 0.5, 0.9, 1} {
		r := run(t, setting(list), simulate.Point{Sensitive: simulate.Selection{Share: share}})
		got := float64(r.SubmittedSensitive) / float64(r.Submitted)
		if got < share-0.01 || got > share+0.01 || share == 0 && got != 0 || share == 1 && got != 1 {
			t.Errorf("share %v gave %v", share, got)
		}
	}
	half := simulate.Selection{Share: 0.5}
	if selectedBits(t, half, 1, jobs(40)) == selectedBits(t, half, 2, jobs(40)) {
		t.Error("two seeds choose the same containers")
	}
}

func TestReadList(t *testing.T) {
	containers := jobs(8)
	containers[6].Job, containers[7].Job = 0x8914e07b53ba1e3, 0x8914e07b53ba1e3 // FNV-1a of "db", as readers of traces number names
	for _, test := range []struct {
		text string
		want uint64
		err  string
	}{
		{text: "job\n1\n", want: 0b1100},
		{text: "job\n1\n1\n2\n", want: 0b111100},
		{text: "job,task\n0,1\n2,\n", want: 0b110010},
		{text: "job\ndb\n", want: 0b11000000},
		{text: "job\n", want: 0},
		{text: "", err: "list.csv: empty: the first line must be job or job,task"},
		{text: "name\n", err: `list.csv:1: columns name: must be job or job,task`},
		{text: "job,task,x\n", err: "list.csv:1: columns"},
		{text: "job\n\"\"\n", err: "list.csv:2: no job"},
		{text: "job,task\n1,x\n", err: `list.csv:2: task "x": must be a number`},
		{text: "job,task\n1,-1\n", err: `list.csv:2: task "-1": must be a number`},
		{text: "job,task\n1\n", err: "list.csv:2: wrong number of fields"},
	} {
		list, err := simulate.ReadList(strings.NewReader(test.text), "list.csv")
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q: error %v, want %q", test.text, err, test.err)
			}
		case err != nil:
			t.Errorf("%q: %v", test.text, err)
		default:
			if got := selectedBits(t, simulate.Selection{Listed: list}, 1, containers); got != test.want {
				t.Errorf("%q chose %b, want %b", test.text, got, test.want)
			}
		}
	}
}

// TestListJobNames checks that a list can contain the job names of the trace.
func TestListJobNames(t *testing.T) {
	file := t.TempDir() + "/small.csv"
	write(t, file, "time,event,machine,cpu,memory,job,task\n0,machine-add,m,4,1Gi,,\n0,submit,,1,1Mi,db,0\n0,submit,,1,1Mi,web,0\n1,end,,,,db,0\n1,end,,,,web,0\n")
	list, err := simulate.ReadList(strings.NewReader("job\ndb\n"), "list.csv")
	if err != nil {
		t.Fatal(err)
	}
	s := setting(nil)
	s.Open = func() (trace.Reader, error) { return trace.Open("csv:"+file, trace.Options{}) }
	if r := run(t, s, simulate.Point{Sensitive: simulate.Selection{Listed: list}}); r.SubmittedSensitive != 1 || r.Sensitive != 0.5 {
		t.Errorf("got %+v: want one sensitive container of two", r)
	}
}

func FuzzReadList(f *testing.F) {
	for _, text := range []string{"job\n1\n", "job,task\n1,2\ndb,\n", "job,task\n1\n", "job\n\"\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := simulate.ReadList(strings.NewReader(text), "list.csv")
		if (list == nil) == (err == nil) {
			t.Fatalf("list %v, error %v", list, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "list.csv:") {
			t.Fatalf("error %q does not name the file", err)
		}
	})
}
