package hybrid_test

import (
	"errors"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// A paperModel is a second implementation of Algorithm 1 of the paper. It is slow and simple: for every question it evaluates every
// container again.
type paperModel struct {
	machine    *topology.Machine
	options    hybrid.Options
	cpus       []int // usable, rising
	containers []*paperContainer
}

type paperContainer struct {
	request   hybrid.Request
	exclusive []int
	fractions map[int]hybrid.Milli
}

func newPaperModel(m *topology.Machine, o hybrid.Options) *paperModel {
	return &paperModel{machine: m, options: o, cpus: usable(m, o).Slice()}
}

// fractional returns the CPUs with fractions, the emptiest first and then by id, and the room on each.
func (p *paperModel) fractional() (cpus []int, room map[int]hybrid.Milli) {
	room = map[int]hybrid.Milli{}
	for _, cpu := range p.cpus {
		used := hybrid.Milli(0)
		for _, c := range p.containers {
			used += c.fractions[cpu]
		}
		if used > 0 {
			cpus = append(cpus, cpu)
			room[cpu] = 1000 - used
		}
	}
	sort.SliceStable(cpus, func(i, j int) bool { return room[cpus[i]] > room[cpus[j]] })
	return cpus, room
}

// shared returns the CPUs without sensitive containers, in ascending order.
func (p *paperModel) shared() (cpus []int) {
	_, room := p.fractional()
	for _, cpu := range p.cpus {
		_, isFractional := room[cpu]
		isExclusive := false
		for _, c := range p.containers {
			isExclusive = isExclusive || slices.Contains(c.exclusive, cpu)
		}
		if !isFractional && !isExclusive {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

func (p *paperModel) find(id string) int {
	return slices.IndexFunc(p.containers, func(c *paperContainer) bool { return c.request.ID == id })
}

// allocate places a container. place is its index in the order of arrival.
func (p *paperModel) allocate(r hybrid.Request, place int) error {
	if err := p.checkCapacity(r); err != nil {
		return err
	}
	c := &paperContainer{request: r, fractions: map[int]hybrid.Milli{}}
	if r.Class == hybrid.Sensitive && !p.choose(c) {
		return hybrid.ErrViewImpossible
	}
	p.containers = slices.Insert(p.containers, place, c)
	if p.flexibleStands() {
		return nil
	}
	p.containers = slices.Delete(p.containers, place, place+1)
	return hybrid.ErrNoCapacity
}

// checkCapacity checks the paper's condition "host has enough CPU resources in total to allocate r to c".
func (p *paperModel) checkCapacity(r hybrid.Request) error {
	total := map[hybrid.Class]hybrid.Milli{r.Class: guaranteed(r)}
	for _, c := range p.containers {
		total[c.request.Class] += guaranteed(c.request)
	}
	capacity := hybrid.Milli(1000 * len(p.cpus))
	if total[hybrid.Sensitive]+total[hybrid.Flexible] > capacity {
		return hybrid.ErrNoCapacity
	}
	if r.Class == hybrid.Sensitive && total[hybrid.Sensitive]+p.options.MinShared > capacity {
		return hybrid.ErrNoCapacity
	}
	return nil
}

// flexibleStands reports whether the flexible containers, if there are any, have a CPU.
func (p *paperModel) flexibleStands() bool {
	fractional, _ := p.fractional()
	return len(fractional)+len(p.shared()) > 0 || !slices.ContainsFunc(p.containers, func(c *paperContainer) bool {
		return c.request.Class == hybrid.Flexible
	})
}

// choose chooses the CPUs of a sensitive container: lines 8 to 32 of the algorithm.
func (p *paperModel) choose(c *paperContainer) bool {
	whole, frac := int(c.request.Limit/1000), c.request.Limit%1000
	shared := p.shared()
	n := min(whole, len(shared))
	c.exclusive = shared[:n]
	shared = shared[n:]
	rest := hybrid.Milli(whole-n)*1000 + frac
	bound := ceil(rest)
	switch {
	case rest == 0:
		return true
	case n == whole && p.fill(c, rest, 1):
		return true
	case n == whole && len(shared) > 0:
		c.fractions[shared[0]] = frac
		return true
	case n < whole && frac > 0 && p.fill(c, rest, bound):
		return true
	}
	return c.request.Policy == hybrid.BestEffort && p.fill(c, rest, len(p.cpus))
}

// fill divides rest among at most n fractional CPUs, the emptiest first, each with as much as fits. If they have too little room, fill
// changes nothing.
func (p *paperModel) fill(c *paperContainer, rest hybrid.Milli, n int) bool {
	cpus, room := p.fractional()
	fractions := map[int]hybrid.Milli{}
	for _, cpu := range cpus[:min(n, len(cpus))] {
		if part := min(rest, room[cpu]); part > 0 {
			fractions[cpu] = part
			rest -= part
		}
	}
	if rest == 0 {
		c.fractions = fractions
	}
	return rest == 0
}

func (p *paperModel) release(id string) error {
	i := p.find(id)
	if i < 0 {
		return hybrid.ErrUnknownID
	}
	p.containers = slices.Delete(p.containers, i, i+1)
	return nil
}

// resize releases a container and allocates it again. If the allocation is refused, resize restores the container.
func (p *paperModel) resize(id string, limit, guarantee hybrid.Milli) error {
	i := p.find(id)
	if i < 0 {
		return hybrid.ErrUnknownID
	}
	old := p.containers[i]
	p.containers = slices.Delete(p.containers, i, i+1)
	r := old.request
	r.Limit, r.Guarantee = limit, guarantee
	err := p.allocate(r, i)
	if err != nil {
		p.containers = slices.Insert(p.containers, i, old)
	}
	return err
}

// state returns the state that a node with the same containers would report.
func (p *paperModel) state() state {
	s := state{machine: p.machine, options: p.options, usable: cpuset.Of(p.cpus...)}
	fractional, _ := p.fractional()
	s.pools = hybrid.Pools{Fractional: cpuset.Of(fractional...), Shared: cpuset.Of(p.shared()...)}
	s.pools.Exclusive = s.usable.Minus(s.pools.Fractional).Minus(s.pools.Shared)
	s.flexible = s.usable.Minus(s.pools.Exclusive)
	for _, c := range p.containers {
		g := hybrid.Grant{Request: c.request, Quota: c.request.Limit, Weight: 1, CPUs: s.flexible}
		if c.request.Class == hybrid.Sensitive {
			s.sensitive += c.request.Limit
			g.Exclusive = cpuset.Of(c.exclusive...)
			g.CPUs = g.Exclusive
			for _, cpu := range p.cpus {
				if milli := c.fractions[cpu]; milli > 0 {
					g.Fractions = append(g.Fractions, hybrid.Fraction{CPU: cpu, Milli: milli})
					g.CPUs.Add(cpu)
				}
			}
		}
		s.grants = append(s.grants, g)
	}
	for _, cpu := range fractional {
		if s.holders(cpu) > 1 {
			_, milli := s.sensitiveOn(cpu)
			s.shared += milli
		}
	}
	return s
}

func (p *paperModel) apply(op operation) error {
	switch op.kind {
	case hybrid.OpAllocate:
		return p.allocate(op.request, len(p.containers))
	case hybrid.OpRelease:
		return p.release(op.request.ID)
	default:
		return p.resize(op.request.ID, op.request.Limit, op.request.Guarantee)
	}
}

// The model meets the invariants on its own, in histories without a node.
func TestPaperModelInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMachine(rt)
		p := newPaperModel(m, drawOptions(rt, m, hybrid.Paper))
		for range 40 {
			_ = p.apply(drawOperation(rt, p.state()))
			if s := p.state(); s.invariants() != nil {
				rt.Fatalf("%v\n%v", s.invariants(), s)
			}
		}
	})
}

// The paper algorithm agrees with the model after every operation.
func TestPaperModel(t *testing.T) {
	operations, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMachine(rt)
		o := drawOptions(rt, m, hybrid.Paper)
		p := newPaperModel(m, o)
		node, err := hybrid.NewNode(m, o)
		if err != nil {
			rt.Fatal(err)
		}
		for range 100 {
			op := drawOperation(rt, p.state())
			want := p.apply(op)
			plan, got := op.plan(node)
			if got == nil {
				got = node.Commit(plan)
			}
			if !errors.Is(got, want) {
				rt.Fatalf("%v: error %v, want %v\n%v", op, got, want, p.state())
			}
			operations++
			if want != nil {
				refused++
			}
			if diff := describeDifference(stateOf(node, m, o), p.state()); diff != "" {
				rt.Fatalf("%v: %s", op, diff)
			}
		}
	})
	t.Logf("%d operations, %d of them refused", operations, refused)
}

// describeDifference describes the difference between the states of a node and the model, ignoring weights.
func describeDifference(got, want state) string {
	for i := range got.grants {
		got.grants[i].Weight = 1
	}
	if g, w := got.String(), want.String(); g != w {
		return "got\n" + g + "want\n" + w
	}
	if got.sensitive != want.sensitive {
		return "sensitive sums differ"
	}
	return ""
}
