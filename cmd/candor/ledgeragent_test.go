package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/ledger"
	"github.com/candor-project/candor/metrics"
)

// TestContainerNames: a container without a name is looked up again each second, up to nameTries times. Until
// then, its name is its ID.
func TestContainerNames(t *testing.T) {
	var n containerNames
	now := time.Now()
	totals := map[string][]ledger.Total{"old": nil, "new": nil}
	if !n.isDue(totals, now) {
		t.Error("the first reading is not due")
	}
	web := podname.Name{Namespace: "default", Pod: "web-0", Container: "app"}
	n.set(map[string]podname.Name{"old": web}, totals, now)
	if n.name("old") != web || n.name("new") != (podname.Name{Container: "new"}) {
		t.Errorf("got %v and %v", n.name("old"), n.name("new"))
	}
	tries := 1
	for ; tries < 100; tries++ {
		if n.isDue(totals, now.Add(nameRetry/2)) {
			t.Fatal("due before a second has passed")
		}
		if now = now.Add(nameRetry); !n.isDue(totals, now) {
			break
		}
		n.set(map[string]podname.Name{"old": web}, totals, now)
	}
	if tries != nameTries {
		t.Errorf("got %d tries, want %d", tries, nameTries)
	}
	if !n.isDue(totals, now.Add(namesEvery)) {
		t.Error("not due after a long time, in which names can change")
	}
	totals["newer"] = nil
	if !n.isDue(totals, now) {
		t.Error("not due for a new container")
	}
	n.set(map[string]podname.Name{"old": web, "newer": web}, totals, now)
	if n.isDue(totals, now.Add(nameRetry)) {
		t.Error("due although nameTries lookups of the last unnamed container have failed")
	}
}

// TestIsDue: the agent measures when the helpers have used 500 ms of CPU time, and otherwise at the interval that ends nearest to 5 s.
func TestIsDue(t *testing.T) {
	for _, c := range []struct {
		used, age, interval time.Duration
		want                bool
	}{
		{0, time.Second, time.Second, false},
		{499 * time.Millisecond, 4 * time.Second, time.Second, false},
		{500 * time.Millisecond, time.Second, time.Second, true},
		{0, 4900 * time.Millisecond, time.Second, true},
		{0, 4900 * time.Millisecond, 100 * time.Millisecond, false},
		{0, 3 * time.Second, 3 * time.Second, false},
		{0, 6 * time.Second, 3 * time.Second, true},
		{0, time.Minute, time.Minute, true},
	} {
		if got := isDue(c.used, c.age, c.interval); got != c.want {
			t.Errorf("%v used in %v, interval %v: got %v, want %v", c.used, c.age, c.interval, got, c.want)
		}
	}
}

// TestScrapeAfterStop: a scrape does not use the meter of a stopped agent.
func TestScrapeAfterStop(t *testing.T) {
	last := &metrics.HelperReading{}
	a := &ledgerAgent{interval: time.Second, last: last, at: time.Now().Add(-time.Hour)}
	a.stop()
	if got := a.reading(); got != last {
		t.Errorf("got %v, want the last measurement", got)
	}
}

// TestBookedTime: the booked time is the part of the helpers' CPU time that the last call of Charges included. Time that another program
// reports after this call is not booked.
func TestBookedTime(t *testing.T) {
	c := newCharger(nil, helpers.Open(), slog.New(slog.DiscardHandler))
	defer c.meter.Close()
	c.last = &helpers.Reading{At: time.Now().Add(time.Hour), Used: time.Second}
	c.reported["a"], c.reportedTime = &reported{time: 3 * time.Second}, 3*time.Second
	g := &host.Grant{Grant: hybrid.Grant{Request: hybrid.Request{ID: "a"}}}
	if charged, _ := c.Charges(g); charged != 3*time.Second || c.BookedTime() != 4*time.Second {
		t.Errorf("charged %v, booked %v; want 3s and 4s", charged, c.BookedTime())
	}
	before, _ := c.HelperTime()
	c.reportedTime += time.Minute
	if after, _ := c.HelperTime(); after < before+time.Minute || c.BookedTime() != 4*time.Second {
		t.Errorf("after a report of 1m: the CPU time of all helpers went from %v to %v, booked %v", before, after, c.BookedTime())
	}
}

// TestHelperTimeAfterEnd: for a while after the end of a helper, the CPU time of its replacement can be missing.
func TestHelperTimeAfterEnd(t *testing.T) {
	c := newCharger(nil, helpers.Open(), slog.New(slog.DiscardHandler))
	defer c.meter.Close()
	if _, ok := c.HelperTime(); !ok {
		t.Error("without an end: the time is not known")
	}
	c.endedAt = time.Now().Add(-replacementTime / 2)
	if _, ok := c.HelperTime(); ok {
		t.Error("after an end: the time is known")
	}
	c.endedAt = time.Now().Add(-2 * replacementTime)
	if _, ok := c.HelperTime(); !ok {
		t.Error("long after an end: the time is not known")
	}
}
