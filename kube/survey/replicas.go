package survey

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/kube/podcpu"
)

// Replicas is the result of placing several replicas of a pod.
type Replicas struct {
	Placed []Placed // by name of the node
	// Refused is the dry run of the first replica that does not fit, or nil if all replicas fit.
	Refused *Result
}

// Placed is the number of replicas on a node.
type Placed struct {
	Node     string `json:"node"`
	Replicas int    `json:"replicas"`
}

// Total returns the number of replicas that fit.
func (r *Replicas) Total() (total int) {
	for _, p := range r.Placed {
		total += p.Replicas
	}
	return total
}

// Replicas places n replicas of a pod one after the other, each on its best node, and records them in the survey. It does not
// know rules between the replicas, such as anti-affinity and topology spread constraints. sources are the settings from
// outside of the pod: labels and profiles of its namespace.
func (s *Survey) Replicas(p *podcpu.Pod, sources podcpu.Context, n int) (*Replicas, error) {
	counts := make([]int, len(s.Nodes))
	candidates := make([]Candidate, len(s.Nodes))
	changed := -1 // node with the previous replica; -1: all nodes
	for i := range n {
		replica := *p
		replica.Metadata.UID, replica.Metadata.Name = fmt.Sprintf("planned-%d", i), fmt.Sprintf("%s-%d", p.Metadata.Name, i)
		demand, err := podcpu.Read(&replica, sources)
		if err != nil {
			return nil, err
		}
		requests := replica.Requests()
		best := -1
		for j := range s.Nodes {
			if changed < 0 || j == changed {
				candidates[j] = s.evaluate(&s.Nodes[j], &replica, demand.Pod, requests)
			}
			if candidates[j].Reason == "" && (best < 0 || candidates[j].rank < candidates[best].rank) {
				best = j
			}
		}
		if best < 0 {
			return s.replicas(counts, s.Place(&replica, demand)), nil
		}
		node := &s.Nodes[best]
		if _, refusal := s.cluster.Reserve(node.Name, demand.Pod, time.Now()); refusal != nil {
			return nil, fmt.Errorf("node %s: %w", node.Name, refusal)
		}
		node.addPod(&replica)
		counts[best]++
		changed = best
	}
	return s.replicas(counts, nil), nil
}

// replicas returns the nodes with replicas.
func (s *Survey) replicas(counts []int, refused *Result) *Replicas {
	r := &Replicas{Refused: refused}
	for i, n := range counts {
		if n > 0 {
			r.Placed = append(r.Placed, Placed{s.Nodes[i].Name, n})
		}
	}
	slices.SortFunc(r.Placed, func(a, b Placed) int { return strings.Compare(a.Node, b.Node) })
	return r
}
