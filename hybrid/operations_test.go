package hybrid_test

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
)

// An operation is an operation on a node. A release needs only the id of the request; a resize needs the id, the limit and the guarantee.
type operation struct {
	kind    hybrid.Op
	request hybrid.Request
}

func (op operation) plan(n *hybrid.Node) (*hybrid.Plan, error) {
	switch op.kind {
	case hybrid.OpAllocate:
		return n.Plan(op.request)
	case hybrid.OpRelease:
		return n.PlanRelease(op.request.ID)
	case hybrid.OpResize:
		return n.PlanResize(op.request.ID, op.request.Limit, op.request.Guarantee)
	default:
		return n.PlanRepair(op.request.ID)
	}
}

func (op operation) String() string {
	names := []string{"allocate", "release", "resize", "repair"}
	return fmt.Sprintf("%s %+v", names[op.kind], op.request)
}

// drawOperation draws a valid operation with an id that exists, or does not exist, as the operation requires. The node may still refuse the
// operation.
func drawOperation(t *rapid.T, s state) operation {
	cpus := s.usable.Count()
	kind := rapid.IntRange(0, 9).Draw(t, "operation")
	if len(s.grants) == 0 || kind < 5 {
		id := freshID(t, s)
		return operation{hybrid.OpAllocate, drawRequest(t, id, cpus)}
	}
	g := s.grants[rapid.IntRange(0, len(s.grants)-1).Draw(t, "container")]
	if kind < 8 {
		return operation{hybrid.OpRelease, hybrid.Request{ID: g.ID}}
	}
	r := drawRequest(t, g.ID, cpus)
	if g.Class == hybrid.Sensitive {
		r.Guarantee = 0
		if r.Limit == 0 {
			r.Limit = 1000
		}
	} else if r.Class == hybrid.Sensitive {
		r.Guarantee = 0
	}
	return operation{hybrid.OpResize, r}
}

// freshID returns an id that no container has. It can be the id of a released container.
func freshID(t *rapid.T, s state) string {
	taken := map[string]bool{}
	for _, g := range s.grants {
		taken[g.ID] = true
	}
	for i := rapid.IntRange(0, 5).Draw(t, "id"); ; i++ {
		if id := fmt.Sprint("c", i); !taken[id] {
			return id
		}
	}
}

// drawBurst draws many equal containers.
func drawBurst(t *rapid.T, s state) (burst []operation) {
	r := drawRequest(t, "", s.usable.Count())
	first := len(s.grants) + 100
	for i := range rapid.IntRange(2, 12).Draw(t, "burst") {
		r.ID = fmt.Sprint("b", first+i)
		burst = append(burst, operation{hybrid.OpAllocate, r})
	}
	return burst
}
