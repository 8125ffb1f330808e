package trace

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestTasks compares the table of tasks with a map.
func TestTasks(t *testing.T) {
	type name struct {
		job  uint64
		task uint32
	}
	rapid.Check(t, func(rt *rapid.T) {
		var got tasks
		want := map[name]uint32{}
		names := rapid.Custom(func(t *rapid.T) name {
			return name{rapid.Uint64Range(0, 3).Draw(t, "job"), rapid.SampledFrom([]uint32{0, 1, 15, 16, 17, 1 << 31, 1<<32 - 1}).Draw(t, "task")}
		})
		put := func(rt *rapid.T) {
			n, slot := names.Draw(rt, "name"), rapid.SampledFrom([]uint32{0, 1, 1000, pendingSlot}).Draw(rt, "slot")
			got.put(n.job, n.task, slot)
			want[n] = slot
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": put,
			"remove": func(rt *rapid.T) {
				n := names.Draw(rt, "name")
				if _, there := want[n]; there {
					got.remove(n.job, n.task)
					delete(want, n)
				}
			},
			"": func(rt *rapid.T) {
				n := names.Draw(rt, "name")
				slot, there := got.slot(n.job, n.task)
				if wantSlot, wantThere := want[n]; there != wantThere || there && slot != wantSlot {
					rt.Fatalf("%+v: %d, %v; want %d, %v", n, slot, there, wantSlot, wantThere)
				}
				if len(want) == 0 && len(got.blocks) > 0 {
					rt.Fatalf("%d blocks of no tasks", len(got.blocks))
				}
			},
		})
	})
}

// TestGoogleAllocates: reading a row of Google's tasks allocates nothing.
func TestGoogleAllocates(t *testing.T) {
	var rows bytes.Buffer
	const rounds = 5000
	for i := range rounds {
		for _, kind := range []int{googleSubmit, googleSchedule, 4} {
			fmt.Fprintf(&rows, "%d,,6221861800,%d,1,%d,huEqgBuTsgIbw1KmYjIUw=,2,9,0.0125,1.59e-05,0.0004044,1\n", 1000+i, i%7, kind)
		}
	}
	r := newGoogle(spec{}, Options{},
		&googleTable{table: *bytesTable("machines", []byte("0,1,0,x,1,1\n")), fields: machineColumns},
		&googleTable{table: *bytesTable("tasks", rows.Bytes()), fields: taskColumns})
	var e Event
	if err := r.Next(&e); err != nil { // the machine
		t.Fatal(err)
	}
	next := func() {
		if err := r.Next(&e); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(2*rounds-1, next); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}
