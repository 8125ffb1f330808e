package fleet_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
	"github.com/candor-project/candor/trace"
)

// The test replays one in sampling machines and tasks, because the scan evaluates every node for every task.
const sampling = 60

// On parts 0 and 1 of the Google trace, each decision with the index is the same as with the scan of all nodes.
func TestIndexIsExactOnRealTrace(t *testing.T) {
	dir, err := filepath.Abs("../../shared/traces/google2011")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		t.Skip("no ../shared/traces beside the project: the real traces are not here")
	}
	for order := fleet.Candor; order <= fleet.Most; order++ {
		t.Run(order.String(), func(t *testing.T) {
			reader, err := trace.Open("google2011:"+dir, trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			o := fleet.Options{Order: order, Resources: []string{"memory"}}
			if order == fleet.Paper {
				o.Hybrid.Algorithm = hybrid.Paper
			}
			r := replay{T: t, fleet: newFleet(t, o), machines: map[int64]*topology.Machine{}}
			var e trace.Event
			for err = reader.Next(&e); err == nil; err = reader.Next(&e) {
				r.event(&e)
			}
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			r.fleet.CheckIndex(t)
			t.Logf("%d placed, %d refused; %+v", r.placed, r.refused, r.fleet.Totals())
			if min(r.placed, r.refused) == 0 {
				t.Errorf("%d placed, %d refused: want some of each", r.placed, r.refused)
			}
		})
	}
}

// A replay is a sample of a trace on a fleet.
type replay struct {
	*testing.T
	fleet           *fleet.Fleet
	machines        map[int64]*topology.Machine // by cores
	placed, refused int
}

func (r *replay) event(e *trace.Event) {
	node := fleet.NodeID(e.Machine)
	switch e.Kind {
	case trace.Submit:
		if (e.Job*31+uint64(e.Task))%sampling == 0 {
			r.submit(e)
		}
		return
	case trace.End:
		r.fleet.Release(fleet.ContainerID(e.Container))
		return
	}
	if e.Machine%sampling != 0 {
		return
	}
	if r.fleet.Node(node) != nil {
		if _, err := r.fleet.RemoveNode(node); err != nil {
			r.Fatal(err)
		}
	}
	cores := trace.LargestMachine.Milli(e.CPU, 16) / 1000
	if e.Kind != trace.MachineRemove && cores > 0 {
		if r.machines[cores] == nil {
			r.machines[cores] = machine(r.T, fmt.Sprint("core:", cores))
		}
		addNode(r.T, r.fleet, node, r.machines[cores], int64(e.Memory))
	}
}

func (r *replay) submit(e *trace.Event) {
	q := fleet.Request{Limit: hybrid.Milli(trace.LargestMachine.Milli(e.CPU, 16)), Resources: []int64{int64(e.Memory)}}
	if e.Class < 2 || q.Limit < hybrid.MinLimit {
		q.Class = hybrid.Flexible
		q.Limit = max(q.Limit, hybrid.MinLimit)
	}
	if e.Flags&trace.DifferentMachines != 0 {
		q.Spread = e.Job
	}
	want, wantErr := r.fleet.Scan(&q)
	got, err := r.fleet.Place(fleet.ContainerID(e.Container), &q)
	if got.Node != want || !errors.Is(err, wantErr) {
		r.Fatalf("%+v: node %d, %v; the scan finds %d, %v", q, got.Node, err, want, wantErr)
	}
	if err != nil {
		r.refused++
	} else {
		r.placed++
	}
}
