package simulate

import "time"

// A Result is the result of a point. The names of its JSON fields are stable. Each submission of a container ends in one of three ways:
//
//	submitted ─┬─ placed on a node
//	           ├─ refused for the view      (RefusedView: a node has room, but no node has the CPUs for a view of the limit, rounded up)
//	           └─ refused for the capacity  (RefusedCapacity: no node has room)
//
// If a machine is removed or shrinks, the containers that lose their node are submitted again (Resubmitted). Shares are between 0 and 1.
type Result struct {
	Algorithm string `json:"algorithm"`
	Policy    string `json:"policy"`
	Scheduler string `json:"scheduler"`
	// Sensitive is the share of sensitive containers. For a random selection, it is the requested share (Selection.Share). For a selection
	// by class or by a list, it is the share of the submitted containers that the selection made sensitive.
	Sensitive float64 `json:"sensitiveShare"`

	// S is the shared time of the sensitive containers: the share of their CPU time on CPUs that are in the cpusets of several containers.
	// The CPU time of a container is its limit times its duration.
	S float64 `json:"s"`
	// R is the reject rate: RefusedView divided by the number of placement decisions for sensitive containers, without the decisions in
	// which no node had room (RefusedCapacitySensitive).
	R float64 `json:"r"`

	Placed          int64 `json:"placed"`          // number of decisions that found a node
	RefusedView     int64 `json:"refusedView"`     // refused sensitive containers: nodes had room, but not the CPUs for the view
	RefusedCapacity int64 `json:"refusedCapacity"` // number of containers for which no node had room
	Resubmitted     int64 `json:"resubmitted"`     // number of containers that were submitted again, because their machine was removed or shrank

	Load  float64 `json:"loadShare"` // mean over time of the limits and guarantees of all placed containers, as a share of all nodes' CPU time
	Moves int64   `json:"moves"`     // number of times that a fraction of a running container moved to another CPU

	Timing

	// SBound is a lower bound on S for the containers that were placed. It is the value of S if the containers could use the CPUs of all
	// nodes together, and could be rearranged at any moment.
	SBound float64 `json:"sBound"`
	// RBound is the unavoidable part of R. It counts a refusal for the view only if a machine with the CPUs of all nodes could not have
	// given the running containers and the refused container their views.
	RBound                   float64 `json:"rBound"`
	Submitted                int64   `json:"submitted"`                // number of containers that the trace submitted
	SubmittedSensitive       int64   `json:"submittedSensitive"`       // number of sensitive containers among Submitted
	RefusedCapacitySensitive int64   `json:"refusedCapacitySensitive"` // number of sensitive containers among RefusedCapacity
	PlacedMilli              float64 `json:"placedMilli"`              // limits and guarantees of all placed containers, mean over time
	SensitiveMilli           float64 `json:"sensitiveMilli"`           // limits of the sensitive containers, mean over time
	NodesUsed                float64 `json:"nodesUsed"`                // number of nodes with containers, mean over time
	Nodes                    float64 `json:"nodes"`                    // number of all nodes, mean over time
	Events                   int64   `json:"events"`                   // number of replayed events of the trace
	TraceSeconds             float64 `json:"traceSeconds"`             // time in the trace from its time 0 to the last replayed event
	Machines                 int     `json:"machines"`                 // number of machines that replaced the trace's machines; 0: the trace's machines
	Stopped                  bool    `json:"stopped"`                  // the context ended before the trace
}

// Timing holds the durations of a point, in seconds. It is the only part of a Result that differs between runs of the same point.
type Timing struct {
	DecisionMean          float64 `json:"decisionMeanSeconds"` // a decision is the choice of a node and of its CPUs, including the update of the fleet
	DecisionP50           float64 `json:"decisionP50Seconds"`
	DecisionP99           float64 `json:"decisionP99Seconds"`
	EventsPerSecond       float64 `json:"eventsPerSecond"`
	Seconds               float64 `json:"replaySeconds"`                // duration of the replay
	DecisionSensitiveMean float64 `json:"decisionSensitiveMeanSeconds"` // decisions for sensitive containers only
	AllocatorShare        float64 `json:"allocatorShare"`               // share of Seconds that decisions and releases took, estimated from a sample of the releases
}

// finish computes the result from the counts and sums.
func (r *run) finish() Result {
	out := &r.result
	end := r.meter.averages(r.fleet.Totals(), &r.bound)
	out.S, out.SBound = ratio(end.shared, end.sensitive), ratio(end.minShared, end.sensitive)
	out.Load = ratio(end.sensitive+end.guaranteed, end.capacity)
	out.PlacedMilli, out.SensitiveMilli = end.sensitive+end.guaranteed, end.sensitive
	out.NodesUsed, out.Nodes = end.used, end.nodes
	out.Moves = r.fleet.Totals().Moves
	counted := float64(r.decisionsSensitive - out.RefusedCapacitySensitive)
	out.R, out.RBound = ratio(float64(out.RefusedView), counted), ratio(float64(r.refusedUnavoidably), counted)
	if s := r.point.Sensitive; s.ByClass || s.Listed != nil {
		out.Sensitive = ratio(float64(out.SubmittedSensitive), float64(out.Submitted))
	}
	out.TraceSeconds = r.meter.now.Seconds()
	out.Timing = r.clock.timing(time.Since(r.started), out.Events)
	return *out
}

// ratio returns part divided by whole, and 0 if whole is 0.
func ratio(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
