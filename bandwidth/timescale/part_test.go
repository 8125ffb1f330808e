package timescale

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/cgroup"
)

// parts returns a recording of a group with the given uses in steps of 10 ms, inside a group that is throttled in each
// period.
func parts(t rapid.TB, used []time.Duration) []byte {
	var file bytes.Buffer
	w, err := record.NewWriter(&file, record.Header{Interval: 10 * ms, CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []record.Group{{Name: "/pod", Quota: 50 * ms, Period: 100 * ms, Encloses: true}, {Name: "/pod/web", Above: "/pod"}} {
		if _, err := w.Group(g, cgroup.Usage{}); err != nil {
			t.Fatal(err)
		}
	}
	var sum cgroup.Usage
	for i, u := range used {
		sum.CPU += u
		w.Tick(time.Duration(i+1)*10*ms, []record.Reading{{Group: 0, Usage: cgroup.Usage{CPU: sum.CPU, Periods: uint64(i+1) / 10, Throttled: uint64(i+1) / 10}}, {Group: 1, Usage: sum}})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestParts: for any cut of a recording, the uses in its two parts add up to the use in the whole recording.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var used []time.Duration
		for _, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 3, 10, 20}), 20, 200).Draw(t, "ms used") {
			used = append(used, time.Duration(n)*ms)
		}
		used[0] = ms // the group exists from the start
		file := parts(t, used)
		span := time.Duration(len(used)) * 10 * ms
		at := time.Duration(rapid.Int64Range(int64(ms), int64(span-ms)).Draw(t, "cut"))
		var cpu [3]time.Duration
		var periods [3]uint64
		for i, p := range []Part{{}, {To: at}, {From: at}} {
			s, err := ReadPart(bytes.NewReader(file), p)
			if err != nil || len(s.Groups) != 2 || s.Span != span {
				t.Fatalf("%+v: %v, %+v", p, err, s)
			}
			web := s.Groups[1]
			cpu[i], periods[i] = web.Used.CPU, web.Ancestor.Used.Periods
			if want := (Part{p.clip(0), p.clip(span)}); web.From != want.From || web.To != want.To {
				t.Fatalf("%+v: from %v to %v", p, web.From, web.To)
			}
			steps := 0.0
			if err := EachStep(bytes.NewReader(file), p, 1, func(cpus float64, n int64) { steps += cpus * float64(n) }); err != nil || steps*float64(10*ms) > float64(cpu[i])+1 {
				t.Fatalf("%+v: steps of %v CPUs for %v, %v", p, steps, cpu[i], err)
			}
		}
		if (cpu[0]-cpu[1]-cpu[2]).Abs() > 2 || periods[0]-periods[1]-periods[2] > 1 {
			t.Fatalf("cut at %v: %v of CPU time, %d periods", at, cpu, periods)
		}
	})
}

// TestAbove: a group without a limit has hidden demand if the group above is throttled.
func TestAbove(t *testing.T) {
	s, err := Read(bytes.NewReader(parts(t, []time.Duration{20 * ms, 20 * ms, 10 * ms, 0, 0, 0, 0, 0, 0, 0, 1})))
	if err != nil {
		t.Fatal(err)
	}
	web := s.Groups[1]
	if web.Ancestor == nil || web.Ancestor.Name != "/pod" || web.Ancestor.Used.Throttled != 1 || web.HiddenDemand == nil || web.HiddenDemand.Share != 1 || math.Abs(web.HiddenDemand.Wanted-web.Mean()) > 1e-9 {
		t.Errorf("%+v, hidden %+v", web.Ancestor, web.HiddenDemand)
	}
	if top := s.Groups[0]; top.Ancestor != nil || top.HiddenDemand == nil || !top.Encloses {
		t.Errorf("%+v", top)
	}
}

func TestNoPart(t *testing.T) {
	file := parts(t, make([]time.Duration, 100))
	if _, err := ReadPart(bytes.NewReader(file), Part{From: time.Second}); !errors.Is(err, ErrNoPart) {
		t.Error(err)
	}
	if s, err := ReadPart(bytes.NewReader(file), Part{From: 990 * ms, To: time.Hour}); err != nil || s.Groups[0].To-s.Groups[0].From != 10*ms {
		t.Errorf("%+v, %v", s, err)
	}
}
