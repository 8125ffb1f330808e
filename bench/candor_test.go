package bench

import (
	"fmt"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// candor is a hybrid.Node and the request of the measured container.
type candor struct {
	node    *hybrid.Node
	request hybrid.Request
}

// newCandor returns an allocator whose node has containers on the scene's CPUs, for a container with this
// limit.
func newCandor(t testing.TB, s scene, limit hybrid.Milli) allocator {
	node, err := hybrid.NewNode(s.machine, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var grants []hybrid.Grant
	for i, cpus := range s.held {
		request := hybrid.Request{ID: fmt.Sprint("held", i), Limit: hybrid.Milli(1000 * cpus.Count())}
		grants = append(grants, hybrid.Grant{Request: request, CPUs: cpus, Exclusive: cpus, Weight: request.Limit})
	}
	if err := node.Restore(grants); err != nil {
		t.Fatal(err)
	}
	return &candor{node, hybrid.Request{ID: "new", Limit: limit}}
}

func (c *candor) allocate() error {
	plan, err := c.node.Plan(c.request)
	if err != nil {
		return err
	}
	return c.node.Commit(plan)
}

func (c *candor) release() error {
	plan, err := c.node.PlanRelease(c.request.ID)
	if err != nil {
		return err
	}
	return c.node.Commit(plan)
}

func (c *candor) holds() cpuset.Set {
	grant, _ := c.node.Grant(c.request.ID)
	return grant.CPUs
}

func (c *candor) free() cpuset.Set { return c.node.Pools().Shared }

func (c *candor) state() any { return []any{c.node.Grants(), c.node.Pools()} }
