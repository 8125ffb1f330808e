package main

import (
	"slices"
	"testing"
	"time"

	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/ledger"
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

// TestAgentWaits: while the use of the helpers does not rise, the agent measures every fifth interval.
func TestAgentWaits(t *testing.T) {
	var a ledgerAgent
	var measured []int
	for interval, rises := range []bool{true, false, false, false, false, false, false, true, false} {
		if a.isDue(rises) {
			measured = append(measured, interval)
			a.waited = 0 // as next does
		}
	}
	if want := []int{0, 5, 7}; !slices.Equal(measured, want) || a.waited != 1 {
		t.Errorf("measured in the intervals %v, want %v", measured, want)
	}
}
