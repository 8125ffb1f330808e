package cluster

import (
	"fmt"
	"sync"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// TestConcurrentUse runs queries and changes concurrently, for the race detector. After all pods are deleted,
// only the reports remain.
func TestConcurrentUse(t *testing.T) {
	c := New(patience)
	agents := make([]*hybrid.Node, 4)
	for i := range agents {
		agents[i] = newNode(t, "numa:2 core:4", hybrid.Options{})
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			node := worker % len(agents)
			name := fmt.Sprint("n", node)
			for i := range 100 {
				p := pod(t, fmt.Sprintf("p%d-%d", worker, i), sensitive("app", hybrid.Milli(300+i*10)), flexible("log", 100))
				if worker < len(agents) {
					c.Report(name, uint64(i+1), reportOf(t, agents[node]), start)
				}
				if _, refusal := c.Reserve(name, p, start); refusal == nil && i%3 == 0 {
					c.Bound(name, p, start)
				}
				trial := c.Trial(name)
				trial.Remove(fmt.Sprintf("p%d-%d", worker, i-1))
				trial.Fits(p, nil)
				c.Rank(name, p, Amounts{})
				c.FitsAfterReport(name, uint64(i), p)
				c.Expire(start)
				c.Totals()
				c.Forget(p.UID)
			}
		})
	}
	all.Wait()
	if got := c.Totals(); got != (Totals{Reporting: len(agents)}) {
		t.Errorf("got %+v, want only %d reports", got, len(agents))
	}
}
