package advise

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/bandwidth"
)

const ms = time.Millisecond

// demandOf returns a demand with the given numbers of used CPUs, in steps of 10 ms.
func demandOf(t testing.TB, cpus int, used ...float64) *Demand {
	t.Helper()
	d, err := NewDemand(10*ms, cpus)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range used {
		d.Add(u, 1)
	}
	if err := d.Prepare(); err != nil {
		t.Fatal(err)
	}
	return d
}

// requests returns the demand of four parallel requests of 60 ms on four CPUs in each second. They start at
// 60 ms, 90 ms before the next edge of a period of 100 ms.
func requests(t testing.TB) *Demand {
	var used []float64
	for i := range 1000 {
		if n := i % 100; n >= 6 && n < 12 {
			used = append(used, 4)
		} else {
			used = append(used, 0)
		}
	}
	return demandOf(t, 4, used...)
}

// TestTry compares with a calculation by hand. Under a limit of two CPUs, the requests have used their 200 ms when 40
// ms of work remain. This work waits from 110 ms until the edge at 150 ms.
func TestTry(t *testing.T) {
	d := requests(t)
	if d.MaxThreads() != 4 || d.Mean() != 0.24 {
		t.Fatalf("%d at once, %v on average", d.MaxThreads(), d.Mean())
	}
	limited := func(quota, burst time.Duration) Option {
		return Option{Bandwidth: bandwidth.Bandwidth{Quota: quota, Period: 100 * ms, Burst: burst}}
	}
	for _, c := range []struct {
		name string
		Option
		throttled bool
		p99       time.Duration
		overrun   time.Duration
	}{
		{"limit 2", limited(200*ms, 0), true, 40 * ms, 50 * ms},
		{"limit 2, burst", limited(200*ms, 200*ms), false, 0, 60 * ms},
		{"limit 4", limited(400*ms, 0), false, 0, 0},
		{"two CPUs", Option{Sensitive: 2}, false, 60 * ms, 0},
		{"four CPUs", Option{Sensitive: 4}, false, 0, 0},
	} {
		got := d.Try(c.Option)
		// A CPU that the kernel charges at its ticks is stopped up to a tick late.
		if got.Throttled > 0 != c.throttled || (got.P99-c.p99).Abs() > 5*ms || (got.Overrun-c.overrun).Abs() > 10*ms || got.P50 > got.P99 || got.Mean > got.P99 || got.Mean > 0 != (got.P99 > 0) || got.Unmet {
			t.Errorf("%s: throttled %v, p50 %v, p99 %v, overrun %v; want throttled %v, p99 %v, overrun %v", c.name, got.Throttled, got.P50, got.P99, got.Overrun, c.throttled, c.p99, c.overrun)
		}
	}
}

// TestThreads: the work of a single thread stays on a single thread. Of 60 ms that start at 60 ms, 40 ms are
// done at 100 ms, and the other 20 ms run from the edge at 150 ms until 170 ms.
func TestThreads(t *testing.T) {
	used := slices.Repeat([]float64{0}, 100)
	for i := 6; i < 12; i++ {
		used[i] = 1
	}
	d := demandOf(t, 4, used...)
	got := d.Try(Option{Bandwidth: bandwidth.Bandwidth{Quota: 40 * ms, Period: 100 * ms}})
	if d.MaxThreads() != 1 || d.done[0] != 70*ms || (got.P99-50*ms).Abs() > 5*ms {
		t.Errorf("%d threads, p99 %v, want 50ms", d.MaxThreads(), got.P99)
	}
}

// TestHops: work that waited for the first container reaches the next container in parts. These fit into the
// quota of that container if its next edge comes first. Demand that is met without delay in the first
// container is met without delay in all.
func TestHops(t *testing.T) {
	used := slices.Repeat([]float64{0}, 200)
	for i := 6; i < 12; i++ {
		used[i] = 1
	}
	for hops, want := range map[int]time.Duration{1: 50 * ms, 2: 50 * ms} {
		d := demandOf(t, 4, used...)
		d.Hops = hops
		if err := d.Prepare(); err != nil {
			t.Fatal(err)
		}
		if d.done[0] != time.Duration(6+hops)*10*ms || d.done[5] != time.Duration(11+hops)*10*ms {
			t.Errorf("%d hops: done at %v without a limit", hops, d.done)
		}
		got := d.Try(Option{Bandwidth: bandwidth.Bandwidth{Quota: 40 * ms, Period: 100 * ms}})
		if (got.P99-want).Abs() > 6*ms || got.Periods == 0 {
			t.Errorf("%d hops: p99 %v, want %v; %d periods", hops, got.P99, want, got.Periods)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		d := demandOf(t, 4, append(rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 0.1, 1, 2, 3.5}), 20, 300).Draw(rt, "CPUs used"), 1)...)
		limit := rapid.SampledFrom([]float64{0.5, 1, 2, 4}).Draw(rt, "limit")
		var before time.Duration
		for hops := 1; hops <= 4; hops++ {
			d.Hops = hops
			if err := d.Prepare(); err != nil {
				rt.Fatal(err)
			}
			got := d.Try(Option{Bandwidth: bandwidth.Bandwidth{Quota: time.Duration(limit * float64(100*ms)), Period: 100 * ms}})
			if got.P99 < before-time.Duration(hops)*15*ms || limit == 4 && got.P99 > time.Duration(hops)*15*ms {
				rt.Fatalf("%d hops, limit %v: %+v, with one less p99 %v", hops, limit, got, before)
			}
			before = got.P99
		}
	})
}

// TestUnmetDemand: Try reports demand as unmet if the limit is below its mean.
func TestUnmetDemand(t *testing.T) {
	d := demandOf(t, 4, slices.Repeat([]float64{2}, 20000)...)
	got := d.Try(Option{Bandwidth: bandwidth.Bandwidth{Quota: 100 * ms, Period: 100 * ms}})
	if !got.Unmet || got.Throttled < 0.99 || got.P50 < 30*time.Second {
		t.Errorf("%+v", got)
	}
	if target, _ := ParseTarget("throttled<100%,delay-p50<1h"); target.IsMetBy(got) {
		t.Error("met")
	}
}

// TestMoreIsNoWorse: with a higher limit no work is done later, and a limit of the peak demand delays no
// work.
func TestMoreIsNoWorse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		used := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 0.1, 1, 2, 3.5}), 20, 300).Draw(rt, "CPUs used")
		d := demandOf(t, 4, append(used, 1)...)
		period := rapid.SampledFrom([]time.Duration{20 * ms, 100 * ms, 500 * ms}).Draw(rt, "period")
		const tolerance = 15 * ms // for the slices that CPUs draw and keep, and their position in the period
		before := Outcome{P50: time.Hour, P99: time.Hour}
		for _, limit := range []float64{0.5, 1, 2, 4} {
			got := d.Try(Option{Bandwidth: bandwidth.Bandwidth{Quota: time.Duration(limit * float64(period)), Period: period}})
			if got.P50 > before.P50+tolerance || got.P99 > before.P99+tolerance {
				rt.Fatalf("limit %v: %+v, with less %+v", limit, got, before)
			}
			before = got
		}
		if before.P99 > tolerance {
			rt.Fatalf("all CPUs: %+v", before)
		}
	})
}

// TestOptions: the limits rise from the mean to the peak demand, and the kernel accepts each limit with its period.
func TestOptions(t *testing.T) {
	d := requests(t)
	options := d.Options([]time.Duration{2 * ms, 100 * ms})
	for _, o := range options {
		if o.Sensitive == 0 && (o.Check() != nil || o.Limit() < d.Mean()-1e-9 || o.Limit() > 4) {
			t.Errorf("%+v: %v", o, o.Check())
		}
	}
	if first, last := options[0], options[len(options)-1]; first.Limit() != 0.24 || last.Sensitive != 4 || options[len(options)-5].Limit() != 4 {
		t.Errorf("from %+v to %+v", first, last)
	}
	small := demandOf(t, 1, 3, 3) // on a node with fewer CPUs than the mean
	if got := small.Options([]time.Duration{100 * ms}); len(got) != 3 || got[0].Limit() != 1 || got[2].Sensitive != 1 {
		t.Errorf("on one CPU: %v", got)
	}
}

func TestCheapest(t *testing.T) {
	outcomes := requests(t).TryAll([]Option{
		{Bandwidth: bandwidth.Bandwidth{Quota: 400 * ms, Period: 100 * ms}},
		{Bandwidth: bandwidth.Bandwidth{Quota: 200 * ms, Period: 100 * ms}},
		{Bandwidth: bandwidth.Bandwidth{Quota: 200 * ms, Period: 100 * ms, Burst: 200 * ms}},
		{Sensitive: 3},
	})
	for text, want := range map[string]string{
		"throttled<1%":               "a limit of 2000m, 200ms of each 100ms, with a burst of 200ms",
		"delay-p50<1ms":              "a limit of 2000m, 200ms of each 100ms",
		"delay-p99<1ms,throttled<1%": "a limit of 2000m, 200ms of each 100ms, with a burst of 200ms",
	} {
		target, err := ParseTarget(text)
		if err != nil || target.String() != text {
			t.Fatalf("%v: %v", target, err)
		}
		if best, ok := Cheapest(outcomes, target); !ok || best.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, best, ok, want)
		}
	}
	target, _ := ParseTarget("delay-p99<1ms")
	if best, ok := Cheapest(outcomes[1:2], target); ok || best.Option != outcomes[1].Option {
		t.Errorf("%v counts as meeting %s", best, target)
	}
}

func TestParseTarget(t *testing.T) {
	for _, bad := range []string{"", "throttled", "throttled<", "throttled<x", "throttled<0%", "throttled<-1%", "throttled<NaN", "throttled<Inf",
		"delay-p99<5", "delay-p99<-5ms", "delay-p75<5ms", "throttled<1%,", "throttled>1%"} {
		if got, err := ParseTarget(bad); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

func TestUnfit(t *testing.T) {
	if _, err := NewDemand(time.Second, 2); !errors.Is(err, ErrUnfit) {
		t.Error(err)
	}
	for n, cpus := range map[int64]float64{0: 0, 100: 0, 1 << 40: 1} {
		d, err := NewDemand(10*ms, 2)
		if err != nil {
			t.Fatal(err)
		}
		d.Add(cpus, n)
		if err := d.Prepare(); !errors.Is(err, ErrUnfit) {
			t.Errorf("%d steps with %v: %v", n, cpus, err)
		}
	}
	// Invalid numbers of CPUs from a file, and more CPUs than this machine has.
	for _, cpus := range []float64{math.NaN(), math.Inf(1), -1, 1e12, 1 << 16} {
		d, _ := NewDemand(10*ms, 2)
		d.Add(1, 10)
		d.Add(cpus, 10)
		if err := d.Prepare(); !errors.Is(err, ErrUnfit) {
			t.Errorf("%v CPUs: %v", cpus, err)
		}
	}
	d, _ := NewDemand(10*ms, 1)
	d.Add(2, 20000) // 200 s that take 400 s on one CPU
	if err := d.Prepare(); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "1 CPUs are too few") {
		t.Errorf("more than the machine does: %v", err)
	}
}

// TestShortage: a bound of 1 % needs 299 windows with work, because 0.99^299 < 0.05.
func TestShortage(t *testing.T) {
	for _, c := range []struct {
		target  string
		period  time.Duration
		periods uint64
		busy    int
		want    string
	}{
		{"throttled<1%", 100 * ms, 299, 1, ""},
		{"throttled<1%", 100 * ms, 298, 1000, "throttled<1% needs 299 windows of 100ms with work, and the recording has 298; 100.3s"},
		{"throttled<0.1%", 500 * ms, 599, 10000, "throttled<0.1% needs 2995 windows of 500ms with work, and the recording has 599; 500.0s"},
		{"throttled<1%", 20 * ms, 5000, 100, "throttled<1% needs 299 windows of 100ms with work, and the recording has 100; 299.0s"},
		{"throttled<100%", 100 * ms, 1, 1, ""},
		{"delay-p99<5ms", 500 * ms, 10, 299, ""},
		{"delay-p99<5ms", 20 * ms, 1000, 298, "delay-p99<5ms needs 299 windows of 100ms with work, and the recording has 298; 100.3s"},
		{"delay-p50<5ms", 100 * ms, 1, 5, ""},
		{"delay-p50<5ms,throttled<10%", 100 * ms, 10, 1, "delay-p50<5ms needs 5 windows of 100ms with work, and the recording has 1; 500.0s"},
		{"throttled<1e-300%", 100 * ms, 0, 0, "throttled<1e-300% needs 1000000000000000 windows of 100ms with work, and the recording has 0; 315360000.0s"},
	} {
		target, err := ParseTarget(c.target)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if s := target.shortage(Outcome{Option: Option{Bandwidth: bandwidth.Bandwidth{Quota: c.period, Period: c.period}}, Periods: c.periods}, c.busy, 100*time.Second); s != nil {
			got = fmt.Sprintf("%s; %.1fs", s, s.Length.Seconds())
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.target, got, c.want)
		}
	}
}

// TestRecordFor: the recommended length has a reserve of a tenth, and is a multiple of 10 s, a minute or an hour.
func TestRecordFor(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		time.Second: 10 * time.Second, 30 * time.Second: 40 * time.Second, 60 * time.Second: 2 * time.Minute,
		299 * time.Second: 6 * time.Minute, 100 * time.Minute: 2 * time.Hour, maxLength: 96360 * time.Hour,
	} {
		if got := (&Shortage{Length: length}).RecordFor(); got != want {
			t.Errorf("%v: %v, want %v", length, got, want)
		}
	}
}

// TestAnswer: the answer is the cheapest setting that the recording verifies. Without such a setting there is none.
func TestAnswer(t *testing.T) {
	outcome := func(quota, period time.Duration, periods uint64, throttled float64) Outcome {
		return Outcome{Option: Option{Bandwidth: bandwidth.Bandwidth{Quota: quota, Period: period}}, Periods: periods, Throttled: throttled}
	}
	long, short := outcome(200*ms, 500*ms, 60, 0), outcome(20*ms, 100*ms, 100, 0)
	verified, throttled := outcome(60*ms, 100*ms, 300, 0), outcome(10*ms, 100*ms, 300, 0.5)
	target, err := ParseTarget("throttled<1%")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		outcomes []Outcome
		answer   bool
		record   time.Duration
	}{
		{"the cheaper settings need a longer recording", []Outcome{throttled, long, verified}, true, 0},
		{"all settings need a longer recording", []Outcome{throttled, long, short}, false, 2 * time.Minute},
		{"no setting meets the target", []Outcome{throttled}, false, 0},
		{"only exclusive CPUs", []Outcome{throttled, {Option: Option{Sensitive: 1}}}, false, 0},
	} {
		r := Report{Group: "web", Target: target, Outcomes: c.outcomes, BusyWindows: 300, Span: 30 * time.Second,
			Record: func(d time.Duration) string { return "record " + d.String() }}
		best, isKnown := r.Answer()
		s := r.Shortage()
		if isKnown != c.answer || isKnown && best.Option != verified.Option || (s != nil) != (c.record > 0) || s != nil && s.RecordFor() != c.record {
			t.Errorf("%s: %v, %v, %v", c.name, best, isKnown, s)
		}
		data := r.data()
		if (data.Answer != nil) != c.answer || (data.Cheapest != nil) != c.answer || data.RecordFor != c.record.Seconds() || c.answer && data.Answer.Limit != 600 {
			t.Errorf("%s: %+v", c.name, data)
		}
		var text strings.Builder
		if err := r.Text(&text, false); err != nil || strings.Contains(text.String(), "LIMIT") || c.record > 0 != strings.Contains(text.String(), "longer: record 2m0s\n") ||
			c.answer != strings.HasPrefix(text.String(), "web: use a limit of 600m, ") {
			t.Errorf("%s: %v\n%s", c.name, err, &text)
		}
	}
}

// TestNoBurstAdvised: if a container uses most of the cheapest limit, the advice recommends no burst.
func TestNoBurstAdvised(t *testing.T) {
	target, err := ParseTarget("throttled<1%")
	if err != nil {
		t.Fatal(err)
	}
	outcome := Outcome{Option: Option{Bandwidth: bandwidth.Bandwidth{Quota: 100 * ms, Period: 100 * ms}}, Periods: 300}
	for mean, want := range map[float64]string{0.4: "", 0.62: "It uses 62 % of that on average: there is little to save up for a burst. For", 0.8: "a burst, and its neighbors would pay for one. For"} {
		var text strings.Builder
		r := Report{Group: "web", Mean: mean, Target: target, BusyWindows: 300, Outcomes: []Outcome{outcome, {Option: Option{Sensitive: 2}}}}
		if err := r.Text(&text, true); err != nil || strings.Contains(text.String(), "It uses") != (want != "") || !strings.Contains(text.String(), want) {
			t.Errorf("mean %v: %v\n%s", mean, err, &text)
		}
	}
}
