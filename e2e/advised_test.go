package e2e

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An advised has the fields of an outcome of candor advise -o json that the tests use.
type advised struct {
	LimitMilli, QuotaSeconds, BurstSeconds, ThrottledShare, DelayMeanSeconds float64
	Sensitive                                                                bool
}

// A met is the result of a round: the throttling of nginx and the latency of its clients.
type met struct {
	throttled float64 // share of the periods
	took      float64 // mean latency of a call, ms
	foreign   float64 // share of the CPUs that other programs used
}

// TestAdvised records nginx under on/off clients, runs candor advise, sets a recommended limit, and compares the
// measurement with the prediction. TestThrottling describes how to run more rounds.
func TestAdvised(t *testing.T) {
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("needs nginx: scripts/test-deps.sh")
	}
	rounds, all := throttlingRounds(t)
	length := 20 * time.Second
	if !all {
		rounds, length = 1, 5*time.Second
	}
	table := &strings.Builder{}
	var throttled, late, foreign []float64
	var want advised
	for i := range rounds {
		l := newLab(t)
		l.need(2)
		file := filepath.Join(t.TempDir(), "usage")
		free := l.meet(words("--class flexible"), file, length)
		if i == 0 { // every round tries the advice of the first round
			want = l.advice(file)
		}
		limited := l.meet([]string{"--class", "flexible", "--cpu", millis(want.LimitMilli)}, file, length)
		throttled = append(throttled, 100*limited.throttled)
		late = append(late, max(limited.took-free.took, 0))
		foreign = append(foreign, max(free.foreign, limited.foreign))
	}
	for _, wrong := range judge(t, table, "nginx at "+millis(want.LimitMilli), usual, foreign, []compared{
		{"throttled, % of the periods", 100 * want.ThrottledShare, 10, throttled},
		{"a call later by, ms", 1000 * want.DelayMeanSeconds, 30, late},
	}) {
		t.Error(wrong)
	}
	t.Logf("measured / predicted: median of up to %d rounds (lowest to highest)\n%s", rounds, table)
}

func millis(milli float64) string {
	text, _ := json.Marshal(math.Round(milli))
	return string(text) + "m"
}

// meet starts nginx with flags of candor run, calls it, and records its CPU use in file.
func (l *lab) meet(flags []string, file string, length time.Duration) (m met) {
	l.Helper()
	url, stop := l.nginx(flags)
	defer stop()
	recorder := l.candor("record", "-o", file, "--container", "server", "--duration", length.String())
	recorder.Stderr = os.Stderr
	before := l.used(nil, l.usable)
	if err := recorder.Start(); err != nil {
		l.Fatal(err)
	}
	text := l.ok("load", url, "--clients", "6", "--on", "150ms", "--off", "1s", "--rate", "40", "--duration", length.String(), "-o", "json")
	if err := recorder.Wait(); err != nil {
		l.Fatal(err)
	}
	all := l.used(nil, l.usable).all - before.all
	var calls struct {
		Count, Errors int
		MeanSeconds   float64
	}
	if err := json.Unmarshal([]byte(text), &calls); err != nil || calls.Errors > 0 || calls.Count == 0 {
		l.Fatalf("%s: %v", text, err)
	}
	s := recording(l.T, file)
	if s == nil || s.Cut || len(s.Groups) != 1 {
		l.Fatalf("%+v", s)
	}
	u := s.Groups[0].Used
	const clients = 0.1 // maximum CPU use of the clients and the recorder
	others := (all-u.CPU).Seconds()/s.Span.Seconds() - clients
	return met{float64(u.Throttled) / float64(max(u.Periods, 1)), 1000 * calls.MeanSeconds, max(others, 0) / float64(l.usable.Count())}
}

// advice returns the lowest recommended limit without a burst whose predicted throttling is below a third of
// the periods.
func (l *lab) advice(file string) advised {
	l.Helper()
	var got struct {
		Reports []struct{ Outcomes []advised }
	}
	text := l.ok("advise", file, "--period", "100ms", "--target", "throttled<100%", "-o", "json")
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Reports) != 1 {
		l.Fatalf("%s: %v", text, err)
	}
	for _, o := range got.Reports[0].Outcomes {
		if !o.Sensitive && o.BurstSeconds == 0 && o.ThrottledShare < 1./3 {
			return o
		}
	}
	l.Fatalf("no limit is felt in less than a third of the periods: %s", text)
	return advised{}
}
