package simulate

import "time"

// A Result is the result of a point. Its names in JSON are an interface.
//
//	submitted ─┬─ placed
//	           ├─ refused for the view      (RefusedView: room, but no view that equals the limit)
//	           └─ refused for the capacity  (RefusedCapacity)
//
// Containers of a removed machine are submitted again (Resubmitted). S and R are shares of 1.
type Result struct {
	Algorithm string `json:"algorithm"`
	Policy    string `json:"policy"`
	Scheduler string `json:"scheduler"`
	// Sensitive is the share that was asked for; of a selection by class or by a
	// list, the share of the submitted containers that it took.
	Sensitive float64 `json:"sensitive"`

	// S is the shared time: the share of the sensitive containers' CPU time (limit times duration) on CPUs in more than one container's
	// cpuset.
	S float64 `json:"s"`
	// R is the reject rate: RefusedView of the sensitive containers that were not
	// refused for lack of room.
	R float64 `json:"r"`

	Placed          int64 `json:"placed"`          // decisions that found a node
	RefusedView     int64 `json:"refusedView"`     // sensitive: room, but on no node the CPUs for its view
	RefusedCapacity int64 `json:"refusedCapacity"` // no node with the room
	Resubmitted     int64 `json:"resubmitted"`     // submitted again since their machine went or shrank

	Load  float64 `json:"load"`  // CPU time promised / CPU time of all nodes, over time
	Moves int64   `json:"moves"` // fractions of running containers that changed CPU

	Timing

	// SBound is the least S that the placed containers could have, if all could be
	// rearranged at any moment over the whole cell.
	SBound float64 `json:"sBound"`
	// RBound is the part of R that is unavoidable with the running containers: all of the cell's CPUs in a single machine would have no
	// room for their views.
	RBound                   float64 `json:"rBound"`
	Submitted                int64   `json:"submitted"` // by the trace
	SubmittedSensitive       int64   `json:"submittedSensitive"`
	RefusedCapacitySensitive int64   `json:"refusedCapacitySensitive"`
	PlacedCPU                float64 `json:"placedCpu"`    // CPU time of all placed containers, in CPUs, over time
	SensitiveCPU             float64 `json:"sensitiveCpu"` // of sensitive containers
	NodesUsed                float64 `json:"nodesUsed"`    // nodes with containers, over time
	Nodes                    float64 `json:"nodes"`        // all nodes, over time
	Events                   int64   `json:"events"`       // of the trace
	Hours                    float64 `json:"hours"`        // of the trace
	Machines                 int     `json:"machines"`     // in place of the trace's own; 0: its own
	Stopped                  bool    `json:"stopped"`      // before the trace ended
}

// Timing holds the times of a point, the only part of a Result that differs between runs.
type Timing struct {
	DecisionMeanUs          float64 `json:"decisionMeanUs"` // a decision: the choice of a node and of its CPUs, including the update of the state
	DecisionP50Us           float64 `json:"decisionP50Us"`
	DecisionP99Us           float64 `json:"decisionP99Us"`
	EventsPerSecond         float64 `json:"eventsPerSecond"`
	Seconds                 float64 `json:"seconds"`
	DecisionSensitiveMeanUs float64 `json:"decisionSensitiveMeanUs"` // of sensitive containers only
	AllocatorShare          float64 `json:"allocatorShare"`          // of Seconds: decisions and ends (an estimate, from some of the ends)
}

// finish turns counts and sums into the figures of the result.
func (r *run) finish() Result {
	out := &r.result
	end := r.meter.averages(r.fleet.Totals(), &r.bound)
	out.S, out.SBound = ratio(end.shared, end.sensitive), ratio(end.least, end.sensitive)
	out.Load = ratio(end.sensitive+end.guaranteed, end.capacity)
	out.PlacedCPU, out.SensitiveCPU = (end.sensitive+end.guaranteed)/1000, end.sensitive/1000
	out.NodesUsed, out.Nodes = end.used, end.nodes
	out.Moves = r.fleet.Totals().Moves
	found := float64(r.decisionsSensitive - out.RefusedCapacitySensitive)
	out.R, out.RBound = ratio(float64(out.RefusedView), found), ratio(float64(r.refusedAnyway), found)
	if s := r.point.Sensitive; s.ByClass || s.Listed != nil {
		out.Sensitive = ratio(float64(out.SubmittedSensitive), float64(out.Submitted))
	}
	out.Hours = r.meter.now.Seconds() / 3600
	out.Timing = r.clock.timing(time.Since(r.began), out.Events)
	return *out
}

// ratio returns 0 for a zero divisor.
func ratio(part, of float64) float64 {
	if of == 0 {
		return 0
	}
	return part / of
}
