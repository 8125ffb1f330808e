package main

import (
	"testing"
	"time"

	"github.com/candor-project/candor/cmd/candor/internal/helpers"
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
	n.set(map[string]podname.Name{}, totals, now)
	if n.name("old") != web || n.name("new") != (podname.Name{Container: "new"}) {
		t.Errorf("after the end of the container: got %v and %v", n.name("old"), n.name("new"))
	}
	delete(totals, "old")
	n.set(map[string]podname.Name{}, totals, now)
	if n.name("old") != (podname.Name{Container: "old"}) {
		t.Errorf("without totals: got %v", n.name("old"))
	}
}

// TestIsDue: the agent measures when the helpers have used 500 ms of CPU time, and otherwise after 5 s, also if a tick is early.
func TestIsDue(t *testing.T) {
	for _, c := range []struct {
		used, age time.Duration
		want      bool
	}{
		{0, time.Second, false},
		{499 * time.Millisecond, 4 * time.Second, false},
		{500 * time.Millisecond, time.Second, true},
		{0, 4999 * time.Millisecond, true},
		{0, time.Minute, true},
	} {
		if got := isDue(c.used, c.age); got != c.want {
			t.Errorf("%v used in %v: got %v, want %v", c.used, c.age, got, c.want)
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

// TestReportedTime: CPU time that another program reports is in the charges and in the CPU time of all helpers.
func TestReportedTime(t *testing.T) {
	c := &charger{reportedTime: 3 * time.Second}
	if got := c.BookedTime(); got != 3*time.Second {
		t.Errorf("before the first reading: got %v", got)
	}
	c.last = &helpers.Reading{Used: time.Second}
	if got := c.BookedTime(); got != 4*time.Second {
		t.Errorf("got %v, want 4s", got)
	}
}
