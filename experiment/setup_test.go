package experiment

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

func setupsOf(t *testing.T, limit hybrid.Milli, names ...string) (setups []Setup) {
	t.Helper()
	for _, name := range names {
		s, err := ParseSetup(name, limit)
		if err != nil {
			t.Fatal(err)
		}
		setups = append(setups, s)
	}
	return setups
}

// TestSetups: under each setup, the program sees the CPUs of the setup and gets its number of threads.
func TestSetups(t *testing.T) {
	l := openLab(t)
	seen, err := ParseMetric(".nproc")
	if err != nil {
		t.Fatal(err)
	}
	threadCount, _ := ParseMetric(".threads")
	e := Experiment{
		Workload: workloadOf(time.Minute, "sh", "-c", `echo "{\"nproc\": $(OMP_NUM_THREADS= nproc), \"threads\": {threads}}"`),
		Setups:   setupsOf(t, 500, "none", "quota", "quota+threads", "quota+threads=3", "cpuset", "shared-fraction", "candor", "candor+topology=single-numa", "3xquota"),
		Rounds:   2, WarmUps: 1,
	}
	e.Workload.Metrics = []Metric{seen, threadCount}
	stages := 0
	e.Progress = func(s Stage) {
		if stages++; s.Run != stages || s.Runs != 27 {
			t.Errorf("stage %d: %+v", stages, s)
		}
	}
	r, err := e.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	all := float64(l.usable.Count())
	for i, want := range [][2]float64{{all, all}, {all, all}, {all, 1}, {all, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {all, all}} {
		nproc, rounds := r.Values(i, ".nproc")
		threads, _ := r.Values(i, ".threads")
		if !slices.Equal(nproc, []float64{want[0], want[0]}) || !slices.Equal(threads, []float64{want[1], want[1]}) || len(rounds) != 2 {
			failed, why := r.Failures(i)
			t.Errorf("%v: nproc %v, threads %v; want %v twice (%d failed: %s)", e.Setups[i], nproc, threads, want, failed, why)
		}
	}
	if runs := len(r.Runs); runs != 3*12 {
		t.Errorf("%d runs, want 36: the shared fraction has two instances, 3xquota three", runs)
	}
	checkRoundTrip(t, r)
}

func TestParseSetup(t *testing.T) {
	for _, test := range []struct {
		text   string
		limit  hybrid.Milli
		want   Setup
		string string
	}{
		{"none", 1500, Setup{Kind: None}, "none"},
		{"quota", 1500, Setup{Kind: Quota, Limit: 1500}, "quota"},
		{"quota+threads", 1500, Setup{Kind: QuotaThreads, Limit: 1500, Threads: 2}, "quota+threads"},
		{"quota+threads=8", 1500, Setup{Kind: QuotaThreads, Limit: 1500, Threads: 8}, "quota+threads=8"},
		{"shared-fraction", 1500, Setup{Kind: SharedFraction, Limit: 1500}, "shared-fraction"},
		{"2xquota", 1500, Setup{Kind: Quota, Limit: 1500, Copies: 2}, "2xquota"},
		{"3xquota+threads=8", 1500, Setup{Kind: QuotaThreads, Limit: 1500, Threads: 8, Copies: 3}, "3xquota+threads=8"},
		{"candor+topology=single-l3", 1500, Setup{Kind: Candor, Limit: 1500, Topology: hybrid.SingleL3}, "candor+topology=single-l3"},
		{"2xcandor+topology=whole-cores", 1500, Setup{Kind: Candor, Limit: 1500, Topology: hybrid.WholeCores, Copies: 2}, "2xcandor+topology=whole-cores"},
	} {
		s, err := ParseSetup(test.text, test.limit)
		if err != nil || s != test.want || s.String() != test.string {
			t.Errorf("%s: %+v %v, %v; want %+v", test.text, s, s, err, test.want)
		}
	}
	for _, text := range []string{"", "pinned", "quota=2", "quota+threads=0", "quota+threads=x", "quota+threads=99999", "quota+threads=", "shared-fraction",
		"1xquota", "0xquota", "1001xquota", "99999999999xquota", "2x", "2x2xquota", "candor=2", "candor+topology", "candor+topology=best", "quota+topology=single-l3"} {
		if _, err := ParseSetup(text, 2000); !errors.Is(err, ErrBadSetup) {
			t.Errorf("%q: %v, want ErrBadSetup", text, err)
		}
	}
}

// TestNeededCPUs: under cpuset, copies of a program need separate CPUs. Under candor, their fractions can
// share CPUs.
func TestNeededCPUs(t *testing.T) {
	for text, want := range map[string]int{
		"none": 1, "2xnone": 1, "quota": 2, "2xquota": 3, "cpuset": 2, "2xcpuset": 4, "candor": 2, "2xcandor": 3, "3xcandor": 5, "shared-fraction": 3,
	} {
		s, err := ParseSetup(text, 1500)
		if err != nil || s.neededCPUs() != want {
			t.Errorf("%s at 1500m: %d, %v; want %d", text, s.neededCPUs(), err, want)
		}
	}
	if s := (Setup{Kind: Candor, Limit: 600, Copies: 3}); s.neededCPUs() != 3 {
		t.Errorf("three copies with 600m need %d CPUs, want 3: two of them do not fit on a CPU", s.neededCPUs())
	}
}
