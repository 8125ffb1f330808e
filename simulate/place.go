package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/trace"
)

// submit records the request of a container, and places it.
func (r *run) submit(e *trace.Event) error {
	r.asked, r.memory[0] = r.request(e), int64(e.Memory)
	if e.Flags&trace.DifferentMachines != 0 {
		r.asked.Spread = max(e.Job, 1)
	}
	r.result.Submitted++
	if r.asked.Class == hybrid.Sensitive {
		r.result.SubmittedSensitive++
	}
	return r.place(fleet.ContainerID(e.Container))
}

// request returns the CPU request of a container. A container with no request, or a request below the smallest limit, is flexible and
// without a limit.
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

// place asks the fleet for a node, and counts the answer. Refused containers are dropped.
func (r *run) place(c fleet.ContainerID) error {
	r.asked.Resources = r.memory[:]
	limit, isSensitive := sensitive(&r.asked)
	began := r.now()
	_, err := r.fleet.Place(c, &r.asked)
	r.clock.decision(r.now()-began, isSensitive)
	if isSensitive {
		r.decisionsSensitive++
	}
	switch {
	case err == nil:
		r.result.Placed++
		r.bound.add(limit, 1)
	case isSensitive && errors.Is(err, hybrid.ErrViewImpossible):
		r.result.RefusedView++
		if r.bound.cpus(limit)*1000 > int64(r.fleet.Totals().Capacity) {
			r.refusedAnyway++
		}
	case errors.Is(err, hybrid.ErrNoCapacity), errors.Is(err, hybrid.ErrViewImpossible):
		r.result.RefusedCapacity++
		if isSensitive {
			r.result.RefusedCapacitySensitive++
		}
	default:
		return fmt.Errorf("container in slot %d: %w", c, err)
	}
	return nil
}

// end ends a container, unless it was refused.
func (r *run) end(c fleet.ContainerID) {
	q := r.fleet.Request(c)
	if !r.release(c) {
		return
	}
	limit, _ := sensitive(&q)
	r.bound.add(limit, -1)
}

// release releases a container, and times some of the releases.
func (r *run) release(c fleet.ContainerID) (was bool) {
	if !r.clock.timesEnd() {
		_, was = r.fleet.Release(c)
		return was
	}
	began := r.now()
	_, was = r.fleet.Release(c)
	r.clock.ends.add(r.now() - began)
	return was
}

// now returns the time since the start of the run, which needs only the monotonic clock.
func (r *run) now() time.Duration { return time.Since(r.began) }
