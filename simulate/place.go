package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/trace"
)

// submit notes what a container asks for, and places it.
func (r *run) submit(e *trace.Event) error {
	for int(e.Container) >= len(r.asked) {
		r.asked = append(r.asked, asked{})
	}
	a := &r.asked[e.Container]
	*a = asked{memory: int64(e.Memory), request: r.request(e)}
	if e.Flags&trace.DifferentMachines != 0 {
		a.request.Spread = max(e.Job, 1)
	}
	r.result.Submitted++
	if a.request.Class == hybrid.Sensitive {
		r.result.SubmittedSensitive++
	}
	return r.place(fleet.ContainerID(e.Container))
}

// request returns what a container asks for in CPU. What asks for nothing, or
// for less than a limit can be, is flexible, without a limit.
func (r *run) request(e *trace.Event) fleet.Request {
	limit := hybrid.Milli(r.unit.Milli(e.CPU, r.setting.CoresOfLargest))
	switch {
	case limit < hybrid.MinLimit:
		return fleet.Request{Class: hybrid.Flexible, Guarantee: limit}
	case r.point.Sensitive.picks(r.setting.Seed, e, r.classes):
		return fleet.Request{Class: hybrid.Sensitive, Policy: r.point.Policy, Limit: limit}
	default:
		return fleet.Request{Class: hybrid.Flexible, Limit: limit}
	}
}

// place asks the fleet for a node and counts the answer. What is refused is
// dropped.
func (r *run) place(c fleet.ContainerID) error {
	a := &r.asked[c]
	r.memory[0] = a.memory
	a.request.Resources = r.memory[:]
	sensitive := a.request.Class == hybrid.Sensitive
	began := time.Now()
	_, err := r.fleet.Place(c, &a.request)
	r.clock.decision(time.Since(began), sensitive)
	if sensitive {
		r.decisionsSensitive++
	}
	switch {
	case err == nil:
		r.result.Placed++
		r.bound.add(a.sensitive(), 1)
	case sensitive && errors.Is(err, hybrid.ErrViewImpossible):
		r.result.RefusedView++
		if r.bound.cpus(a.sensitive())*1000 > int64(r.fleet.Totals().Capacity) {
			r.refusedAnyway++
		}
	case errors.Is(err, hybrid.ErrNoCapacity), errors.Is(err, hybrid.ErrViewImpossible):
		r.result.RefusedCapacity++
		if sensitive {
			r.result.RefusedCapacitySensitive++
		}
	default:
		return fmt.Errorf("container in slot %d: %w", c, err)
	}
	return nil
}

// end ends a container, unless it was refused.
func (r *run) end(c fleet.ContainerID) {
	began := time.Now()
	_, was := r.fleet.Release(c)
	r.clock.ends.add(time.Since(began))
	if was {
		r.bound.add(r.asked[c].sensitive(), -1)
	}
}
