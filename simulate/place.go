package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/trace"
)

// submit handles the submission of a container: it builds the request and places the container.
func (r *run) submit(e *trace.Event) error {
	r.current, r.memory[0] = r.request(e), int64(e.Memory)
	if e.Flags&trace.DifferentMachines != 0 {
		r.current.Spread = max(e.Job, 1)
	}
	r.result.Submitted++
	if r.current.Class == hybrid.Sensitive {
		r.result.SubmittedSensitive++
	}
	return r.place(fleet.ContainerID(e.Container))
}

// request returns the CPU request of a container. A container without a request, or with a request below the smallest limit, is flexible
// and has no limit.
func (r *run) request(e *trace.Event) fleet.Request {
	limit := hybrid.Milli(r.unit.Milli(e.CPU, r.setting.CoresOfLargest))
	switch {
	case limit < hybrid.MinLimit:
		return fleet.Request{Class: hybrid.Flexible, Guarantee: limit}
	case r.point.Sensitive.selects(r.setting.Seed, e, r.classes):
		return fleet.Request{Class: hybrid.Sensitive, Policy: r.point.Policy, Limit: limit}
	default:
		return fleet.Request{Class: hybrid.Flexible, Limit: limit}
	}
}

// place places a container in the fleet, and updates the counts of r.result. The run drops refused containers.
func (r *run) place(c fleet.ContainerID) error {
	r.current.Resources = r.memory[:]
	limit, isSensitive := sensitive(&r.current)
	start := r.elapsed()
	_, err := r.fleet.Place(c, &r.current)
	r.clock.addDecision(r.elapsed()-start, isSensitive)
	if isSensitive {
		r.decisionsSensitive++
	}
	switch {
	case err == nil:
		r.result.Placed++
		r.bound.add(limit, 1)
	case isSensitive && errors.Is(err, hybrid.ErrViewImpossible):
		r.result.RefusedView++
		if r.bound.minCPUs(limit)*1000 > int64(r.fleet.Totals().Capacity) {
			r.refusedUnavoidably++
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

// endContainer ends a container, unless it was refused.
func (r *run) endContainer(c fleet.ContainerID) {
	request := r.fleet.Request(c)
	if !r.release(c) {
		return
	}
	limit, _ := sensitive(&request)
	r.bound.add(limit, -1)
}

// release releases a container. It measures the duration of the release if the release belongs to the sample
// (clock.isSampledEnd). It reports whether the container existed.
func (r *run) release(c fleet.ContainerID) (existed bool) {
	if !r.clock.isSampledEnd() {
		_, existed = r.fleet.Release(c)
		return existed
	}
	start := r.elapsed()
	_, existed = r.fleet.Release(c)
	r.clock.sampledEnds.add(r.elapsed() - start)
	return existed
}

// elapsed returns the time since the start of the run. It reads only the monotonic clock, which is faster than time.Now.
func (r *run) elapsed() time.Duration { return time.Since(r.started) }
