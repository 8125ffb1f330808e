package simulate_test

import (
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/simulate"
	"github.com/candor-project/candor/trace"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestResize(t *testing.T) {
	list := []trace.Event{machine(0, 0, 1000), machine(0, 1, 2000), submit(0, 0, 100), machine(0, 2, 3000), removal(5, 1), end(9, 0)}
	for machines, want := range map[int]string{
		1: "submit, 0 of 3000, end",
		2: "0 of 2000, submit, 1 of 3000, 0 gone, end",
		3: "0 of 1000, 1 of 2000, submit, 2 of 3000, 1 gone, end",
		5: "0 of 1000, 1 of 2000, 2 of 2000, submit, 3 of 3000, 4 of 3000, 1 gone, 2 gone, end",
	} {
		r, err := simulate.ResizeMachines(openerOf(list), machines)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(describeEvents(t, r), ", "); got != want {
			t.Errorf("%d machines: %s, want %s", machines, got, want)
		}
	}
	if _, err := simulate.ResizeMachines(openerOf(nil), 3); err == nil {
		t.Error("a trace without machines can be resized")
	}
}

// describeEvents formats the events of a trace as short strings.
func describeEvents(t *testing.T, r trace.Reader) []string {
	var list []string
	var e trace.Event
	for {
		if err := r.Next(&e); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		number := string(rune('0' + e.Machine))
		list = append(list, map[trace.Kind]string{
			trace.MachineAdd:    number + " of " + string('0'+e.CPU/1000) + "000",
			trace.MachineRemove: number + " gone",
			trace.Submit:        "submit", trace.End: "end",
		}[e.Kind])
	}
}

func TestTarget(t *testing.T) {
	good := simulate.Result{S: 0.05, R: 0, Load: 0.8, Submitted: 100, RefusedCapacity: 10}
	for _, test := range []struct {
		text  string
		meets bool
		says  string
	}{
		{"s<=5%,refused<=10%", true, "s<=5%,refused<=10%"},
		{"s<5%,refused<=10%", false, ""},
		{"s<6%, r=0, refused<0.11", true, ""},
		{"s<6%", false, "s<6%,refused=0"},
		{"load<=80%,refused<20%", true, ""},
		{"load<80%,refused<20%", false, ""},
	} {
		target, err := simulate.ParseTarget(test.text)
		if err != nil {
			t.Error(err)
		} else if target.Meets(&good) != test.meets {
			t.Errorf("%s: meets is %v", test.text, !test.meets)
		}
		if test.says != "" && target.String() != test.says {
			t.Errorf("%q parses to %q, want %q", test.text, target, test.says)
		}
	}
	for _, text := range []string{"", "s", "s>5%", "x<5%", "s<", "s<-1", "s<101%", "s<NaN", "s=5%", "s<0", "s<5%,", "s<<5%", "s==0"} {
		if _, err := simulate.ParseTarget(text); err == nil || !strings.Contains(err.Error(), "must be bounds such as") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// TestFewest places eight containers of 1500m on machines of 4 CPUs. Two containers fit on a machine. Their fractions have CPUs of their
// own only as long as no flexible container needs the room.
func TestFewest(t *testing.T) {
	list := []trace.Event{machine(0, 0, 4000), machine(0, 1, 4000), machine(0, 2, 4000)}
	for i := range uint32(8) {
		list = append(list, sensitive(submit(0, i, 1500)))
	}
	list = append(list, flexible(submit(0, 8, 500)), submit(1, 9, 0))
	for _, test := range []struct {
		target string
		want   int
	}{
		{"s<=0.5,r=0", 4},           // four machines take all of it, with one fraction shared
		{"s<1%,r=0", 5},             // a fifth takes the flexible one
		{"s<=1,r=0,refused<40%", 3}, // two a machine
	} {
		target, err := simulate.ParseTarget(test.target)
		if err != nil {
			t.Fatal(err)
		}
		all, err := simulate.FewestMachines(t.Context(), setting(list), []simulate.Point{byClass(hybrid.Candor)}, target)
		if err != nil || len(all) != 1 || all[0].Machines != test.want {
			t.Errorf("%s: %+v, error %v: want %d machines", test.target, all, err, test.want)
		}
	}
	list = append(list, submit(2, 10, 5000))
	target, _ := simulate.ParseTarget("r=0")
	if _, err := simulate.FewestMachines(t.Context(), setting(list), []simulate.Point{byClass(hybrid.Candor)}, target); !errors.Is(err, simulate.ErrTooFew) {
		t.Errorf("a container of 5 CPUs on machines of 4: error %v", err)
	}
}

func TestGain(t *testing.T) {
	const header = "workload,alone,shared,weight\n"
	gain, err := simulate.ReadGain(strings.NewReader(header+"stream,1.7,1.1,3\nspark,1.3,0.9,1\n"), "gain.csv")
	if err != nil || gain.Workloads != 2 || math.Abs(gain.Alone-1.6) > 1e-12 || math.Abs(gain.Shared-1.05) > 1e-12 {
		t.Fatalf("%+v, error %v", gain, err)
	}
	e := gain.Estimate([]simulate.Result{{S: 0.2, SensitiveMilli: 100000}, {S: 1, SensitiveMilli: 10000}})
	if !slices.EqualFunc(e.Points, []float64{149000, 10500}, func(w simulate.Worth, milli float64) bool { return math.Abs(w.Milli-milli) < 1e-6 }) {
		t.Errorf("%+v: want 149000 and 10500 milli-CPU", e.Points)
	}
	for text, want := range map[string]string{
		"":                           "gain.csv:1: columns",
		"a,b\n":                      `gain.csv:1: columns a, b: must be workload,alone,shared,weight`,
		header:                       "gain.csv: no workload",
		header + "x,1.7,1,0\n":       "gain.csv: no workload",
		header + "x,fast,1,1\n":      `gain.csv:2: alone "fast": must be a number`,
		header + "x,1,-1,1\n":        `gain.csv:2: shared "-1"`,
		header + "x,1,1,NaN\n":       `gain.csv:2: weight "NaN"`,
		header + "x,1,1,1\ny,0,1,1,": "gain.csv:3: wrong number of fields",
		header + "x,1,1,1\ny,0,1,1":  "gain.csv:3: a speed of 0",
	} {
		if _, err := simulate.ReadGain(strings.NewReader(text), "gain.csv"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzReadGain(f *testing.F) {
	for _, text := range []string{"workload,alone,shared,weight\na,1.7,1,1\n", "workload,alone,shared,weight\na,1e9,1,1\n", "\""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := simulate.ReadGain(strings.NewReader(text), "gain.csv")
		if err == nil && !(g.Alone > 0 && g.Shared > 0 && g.Alone <= 1e6) {
			t.Fatalf("%+v of %q", g, text)
		}
	})
}

func FuzzParseTarget(f *testing.F) {
	for _, text := range []string{"s<5%,r=0", "refused<=0.1", "s<", ",", "load<=80%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, err := simulate.ParseTarget(text)
		if err != nil {
			return
		}
		if again, err := simulate.ParseTarget(target.String()); err != nil || again.String() != target.String() {
			t.Fatalf("%q parses to %q, which parses to %q: %v", text, target, again, err)
		}
	})
}
