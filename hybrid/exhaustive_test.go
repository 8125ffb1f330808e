package hybrid_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// styles are the distributions of the limits in a history.
var styles = []struct {
	name  string
	limit func(random *rand.Rand) hybrid.Milli
}{
	{"trace", func(random *rand.Rand) hybrid.Milli { return traceLimit(random, hybrid.Sensitive) }},
	{"uniform", func(random *rand.Rand) hybrid.Milli { return uniformLimit(random, hybrid.Sensitive) }},
	{"tiny", func(random *rand.Rand) hybrid.Milli { return hybrid.Milli(10 + random.IntN(190)) }},
	{"exact", func(random *rand.Rand) hybrid.Milli { return awkwardLimits[random.IntN(len(awkwardLimits))] }},
	{"large fractions", func(random *rand.Rand) hybrid.Milli {
		return hybrid.Milli(1000*random.IntN(3) + 300 + random.IntN(600))
	}},
	{"mixed", func(random *rand.Rand) hybrid.Milli {
		if random.IntN(2) == 0 {
			return uniformLimit(random, hybrid.Sensitive)
		}
		return hybrid.Milli(10 + random.IntN(500))
	}},
}

// A score compares a node's history with the best possible results.
type score struct {
	possible, accepted int          // requests that some arrangement could take; of these, taken
	impossible         int          // requests that none could take
	shared, least      hybrid.Milli // sums over the steps
	sensitive          hybrid.Milli
	steps              int
	worst              float64 // of the histories: shared / least
}

func (s *score) add(t score) {
	s.possible += t.possible
	s.accepted += t.accepted
	s.impossible += t.impossible
	s.shared += t.shared
	s.least += t.least
	s.sensitive += t.sensitive
	s.steps += t.steps
	s.worst = max(s.worst, t.ratio())
}

func (s score) ratio() float64 {
	if s.least == 0 && s.shared == 0 {
		return 1
	}
	return float64(s.shared) / float64(max(1, s.least))
}

func (s score) String() string {
	return fmt.Sprintf("%d steps; accepts %d of %d possible requests (%.3f %%), %d are impossible; shared time %.3f %% of the sensitive, best is %.3f %%: %.3f times, worst history %.3f times",
		s.steps, s.accepted, s.possible, 100*float64(s.accepted)/float64(max(1, s.possible)), s.impossible,
		100*float64(s.shared)/float64(max(1, s.sensitive)), 100*float64(s.least)/float64(max(1, s.sensitive)), s.ratio(), s.worst)
}

// play performs operations near a load on a node of n CPUs. After each step, it compares the node with the oracle.
func play(t *testing.T, n, style, load, steps int, seed uint64, o hybrid.Options) (total score) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, uint64(n*1000+style*100+load)))
	node := newNode(t, n, o)
	limit := styles[style].limit
	for number := range steps {
		s := stateOf(node, flatMachine(n), o)
		op := chooseOperation(random, s, number, load, limit)
		if op.kind != hybrid.OpRelease {
			q := questionOf(s).with(op, s)
			possible := q.acceptable()
			plan, err := op.plan(node)
			switch {
			case err == nil && !possible:
				t.Fatalf("seed %d: accepted what no arrangement can: %v, %+v\n%v", seed, op, q, s)
			case possible:
				total.possible++
			default:
				total.impossible++
			}
			if err == nil {
				total.accepted++
				commit(t, node, plan)
			}
		} else {
			plan, err := op.plan(node)
			if err != nil {
				t.Fatal(err)
			}
			commit(t, node, plan)
		}
		s = stateOf(node, flatMachine(n), o)
		least := questionOf(s).leastShared()
		if least < 0 || s.shared < least {
			t.Fatalf("seed %d: shared time %v, the oracle's least is %v\n%v", seed, s.shared, least, s)
		}
		total.shared += s.shared
		total.least += least
		total.sensitive += s.sensitive
		total.steps++
	}
	return total
}

func commit(t testing.TB, node *hybrid.Node, plan *hybrid.Plan) {
	t.Helper()
	if err := node.Commit(plan); err != nil {
		t.Fatal(err)
	}
}

// chooseOperation returns an allocation if the node is below the load and a release if it is above; and sometimes a resize.
func chooseOperation(random *rand.Rand, s state, number, load int, limit func(*rand.Rand) hybrid.Milli) operation {
	used := hybrid.Milli(0)
	for _, g := range s.grants {
		used += guaranteed(g.Request)
	}
	r := hybrid.Request{ID: fmt.Sprint("c", number), Limit: limit(random)}
	full := used >= hybrid.Milli(s.usable.Count()*10*load)
	switch {
	case len(s.grants) > 0 && (full || random.IntN(8) == 0):
		r.ID = s.grants[random.IntN(len(s.grants))].ID
		return operation{hybrid.OpRelease, r}
	case len(s.grants) > 0 && random.IntN(8) == 0:
		r.ID = s.grants[random.IntN(len(s.grants))].ID
		return operation{hybrid.OpResize, r}
	}
	if r.Class = hybrid.Class(random.IntN(2)); r.Class == hybrid.Flexible && random.IntN(4) == 0 {
		r.Guarantee = max(1, r.Limit/2)
	}
	r.Topology = []hybrid.TopologyPolicy{hybrid.Prefer, hybrid.NoTopology}[random.IntN(2)]
	return operation{hybrid.OpAllocate, r}
}

func playAll(t *testing.T, o hybrid.Options, seeds int) (total score) {
	for style := range styles {
		for _, load := range []int{70, 85, 95, 100} {
			for seed := range seeds {
				n := 2 + (seed*3+style)%7
				o.Reserved = cpuset.Set{}
				o.MinShared = 0
				if seed%4 == 3 {
					o.Reserved.Add(seed % n)
					o.MinShared = 500
				}
				one := play(t, n, style, load, 200, uint64(seed), o)
				total.add(one)
				if r := one.ratio(); o.Moves == hybrid.AnyMoves && r > 1.05 {
					t.Errorf("%d CPUs, %s, load %d %%, seed %d: %v", n, styles[style].name, load, seed, one)
				}
			}
		}
	}
	return total
}

// With unlimited moves, the Candor algorithm accepts every request for which an arrangement exists, and its shared time is hardly above the
// optimum. The test logs the distance from the optimum with limited moves.
func TestExhaustive(t *testing.T) {
	all := playAll(t, hybrid.Options{Moves: hybrid.AnyMoves, RescueMoves: hybrid.AnyMoves}, 6)
	t.Logf("any moves:      %v", all)
	if all.accepted*1000 < all.possible*999 {
		t.Errorf("accepts %d of %d, want 99.9 %%", all.accepted, all.possible)
	}
	t.Logf("default bounds: %v", playAll(t, hybrid.Options{}, 6))
	t.Logf("no moves:       %v", playAll(t, hybrid.Options{Moves: hybrid.NoMoves, RescueMoves: hybrid.NoMoves}, 6))
}
