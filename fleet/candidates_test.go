package fleet

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// trim retains about targetCandidates of many candidates: the best, in order.
func TestTrim(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, count := range []int{maxCandidates + 1, 2 * maxCandidates, 20 * maxCandidates} {
		l := candidates{limit: maxCandidate}
		var bounds []score
		for i := range count {
			bounds = append(bounds, score(random.Uint64N(1<<40)))
			l.push(&candidate{bound: bounds[i], lowest: NodeID(i)})
		}
		slices.Sort(bounds)
		l.trim(make([]uint32, count))
		kept := len(l.heap)
		if kept < targetCandidates/8 || kept > maxCandidates || l.limit.bound != bounds[kept-1] {
			t.Errorf("%d of %d are kept, the limit is %d", kept, count, l.limit.bound)
		}
		for i := range kept {
			if l.heap[0].bound != bounds[i] {
				t.Fatalf("candidate %d of %d has bound %d, want %d", i, count, l.heap[0].bound, bounds[i])
			}
			l.pop()
		}
	}
}
