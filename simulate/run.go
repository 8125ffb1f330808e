package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
	"github.com/candor-project/candor/trace"
)

// A run is the replay of a point.
type run struct {
	setting  *Setting
	point    Point
	unit     trace.Unit
	classes  []trace.Class
	fleet    *fleet.Fleet
	machines map[int]*topology.Machine // topologies by number of CPUs
	current  fleet.Request             // request of the container that is being placed
	memory   [1]int64                  // memory for current.Resources
	meter    meter
	clock    clock
	bound    cellBound
	started  time.Time
	result   Result

	decisionsSensitive int64 // number of placement decisions for sensitive containers
	refusedUnavoidably int64 // number of refusals for the view that Result.RBound counts
}

// sensitive returns the limit of a sensitive container and true, or false for a flexible container.
func sensitive(request *fleet.Request) (limit int64, ok bool) {
	if request.Class != hybrid.Sensitive {
		return 0, false
	}
	return int64(request.Limit), true
}

// stride is the number of events between two checks of the context, and between two updates of the progress.
const stride = 1024

// Run replays the trace on a fleet for a point. If the context ends before the trace, it returns the context's error with the partial
// result.
func Run(ctx context.Context, s Setting, p Point) (Result, error) {
	if err := s.Check(); err != nil {
		return Result{}, err
	}
	reader, err := s.open()
	if err != nil {
		return Result{}, err
	}
	r, err := newRun(&s, p, reader.Header())
	if err == nil {
		events := newAheadReader(reader)
		err = r.replay(ctx, events)
		events.stop()
	}
	s.Progress.setReport(reader.Report())
	err = errors.Join(err, reader.Close())
	if r == nil {
		return Result{}, err
	}
	if err != nil && ctx.Err() == nil {
		return Result{}, err
	}
	r.result.Stopped = err != nil
	return r.finish(), err
}

// open opens the trace, with the number of machines that the setting requests.
func (s *Setting) open() (trace.Reader, error) {
	if s.Machines == 0 {
		return s.Open()
	}
	return ResizeMachines(s.Open, s.Machines)
}

func newRun(s *Setting, p Point, h trace.Header) (*run, error) {
	f, err := fleet.New(fleet.Options{
		Order:     p.Scheduler,
		Hybrid:    hybrid.Options{Algorithm: p.Algorithm},
		Resources: []string{"memory"},
	})
	if err != nil {
		return nil, err
	}
	return &run{
		bound: newCellBound(), setting: s, point: p, unit: h.Unit, classes: h.Classes, fleet: f, machines: map[int]*topology.Machine{}, started: time.Now(),
		result: Result{Algorithm: p.Algorithm.String(), Policy: p.Policy.String(), Scheduler: p.Scheduler.String(), Sensitive: p.Sensitive.Share},
	}, nil
}

// replay handles the events in the order of the trace.
func (r *run) replay(ctx context.Context, events *aheadReader) error {
	var e trace.Event
	defer func() { r.setting.Progress.add(r.result.Events % stride) }()
	for {
		if r.result.Events%stride == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if err := events.Next(&e); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		r.expect(events)
		r.meter.advance(e.Time, r.fleet.Totals(), &r.bound)
		if err := r.handle(&e); err != nil {
			return err
		}
		if missed := r.setting.canStop; missed != nil && missed(&r.result) {
			return errTargetMissed
		}
		if r.result.Events++; r.result.Events%stride == 0 {
			r.setting.Progress.add(stride)
		}
	}
}

// expect notifies the fleet of a container that will end soon, so that the fleet can prefetch the container's memory.
func (r *run) expect(events *aheadReader) {
	c := fleet.NoContainer
	if e := events.peek(fleet.ExpectAhead); e != nil && e.Kind == trace.End {
		c = fleet.ContainerID(e.Container)
	}
	r.fleet.Expect(c)
}

// handle handles an event.
func (r *run) handle(e *trace.Event) error {
	switch e.Kind {
	case trace.MachineAdd, trace.MachineUpdate:
		return r.setMachine(e, r.setting.CPUs(r.unit, e.CPU))
	case trace.MachineRemove:
		return r.setMachine(e, 0)
	case trace.Submit:
		return r.submit(e)
	case trace.End:
		r.endContainer(fleet.ContainerID(e.Container))
		return nil
	}
	return fmt.Errorf("event of kind %d: must be a kind of package trace", e.Kind)
}

// setMachine adds or changes a machine, or removes the machine if it has no CPUs. Containers that lose their node are submitted again.
func (r *run) setMachine(e *trace.Event, cpus int) error {
	if cpus > MaxCores {
		return fmt.Errorf("machine %d has %d CPUs: a cpuset holds %d at most", e.Machine, cpus, MaxCores)
	}
	displaced, err := r.setNode(fleet.NodeID(e.Machine), cpus, []int64{int64(e.Memory)})
	if err != nil {
		return err
	}
	for _, c := range displaced {
		r.current = r.fleet.Request(c)
		r.memory[0] = r.current.Resources[0]
		limit, _ := sensitive(&r.current)
		r.bound.add(limit, -1)
		r.result.Resubmitted++
		if err := r.place(c); err != nil {
			return err
		}
	}
	return nil
}

// setNode adds, changes or removes a node, and returns the containers that lose their node.
func (r *run) setNode(id fleet.NodeID, cpus int, capacity []int64) ([]fleet.ContainerID, error) {
	exists := r.fleet.Node(id) != nil
	if cpus == 0 {
		if !exists {
			return nil, nil
		}
		return r.fleet.RemoveNode(id)
	}
	machine, err := r.machine(cpus)
	switch {
	case err != nil:
		return nil, err
	case exists:
		return r.fleet.ChangeNode(id, machine, capacity)
	default:
		return nil, r.fleet.AddNode(id, machine, capacity)
	}
}

// machine returns a machine with this number of CPUs: a NUMA node with a core per CPU, because traces contain no topology.
func (r *run) machine(cpus int) (*topology.Machine, error) {
	if m := r.machines[cpus]; m != nil {
		return m, nil
	}
	m, err := topology.Parse(fmt.Sprintf("numa:1 core:%d pu:1", cpus))
	r.machines[cpus] = m
	return m, err
}
