package survey

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/podcpu"
)

// A Result is the result of a dry run: the candidate nodes for a pod.
type Result struct {
	Candidates []Candidate // the best node first; at the end, nodes on which the pod does not fit, by name
	Notes      []string    // remarks about the settings, a line each
	Unread     []string    // facts that affect the pod but are not evaluated, a line each
}

// A Candidate is the result of the dry run on a node.
type Candidate struct {
	Node       string       `json:"node"`
	Place      int          `json:"place,omitempty"` // rank from 1, equal for equally good nodes; 0: the pod does not fit
	Reason     string       `json:"reason,omitempty"`
	Containers []Allocation `json:"containers,omitempty"` // without containers that run to completion; none on a node without Candor
	Shared     hybrid.Milli `json:"sharedMilli"`          // shared time that the pod adds to hybrid.Node.Shared
	Moves      int          `json:"moves"`                // number of fractions of other pods that move

	rank fleet.Rank
}

// An Allocation holds the CPUs of a container.
type Allocation struct {
	Name  string       `json:"name"`
	Class hybrid.Class `json:"class"`
	CPUs  string       `json:"cpus"` // sensitive: in the format of nodecpu.FormatCPUs, "0-2,7:500m"; flexible: the shared CPUs as a list
}

// Place evaluates all nodes for a pod, and sorts them from best to worst. It changes nothing.
func (s *Survey) Place(p *podcpu.Pod, asked *podcpu.Demand) *Result {
	a := &Result{}
	requests := p.Requests()
	for i := range s.Nodes {
		a.Candidates = append(a.Candidates, s.evaluate(&s.Nodes[i], p, asked.Pod, requests))
	}
	slices.SortStableFunc(a.Candidates, func(a, b Candidate) int { return cmp.Compare(a.rank, b.rank) })
	for i := range a.Candidates {
		at := &a.Candidates[i]
		switch {
		case at.Reason != "":
		case i > 0 && at.rank == a.Candidates[i-1].rank:
			at.Place = a.Candidates[i-1].Place
		default:
			at.Place = i + 1
		}
	}
	return a
}

// evaluate returns the result of a node for the pod.
func (s *Survey) evaluate(n *Node, p *podcpu.Pod, asked *cluster.Pod, requests podcpu.List) Candidate {
	at := Candidate{Node: n.Name, rank: cluster.WorstRank, Reason: n.refusal(p, requests)}
	if at.Reason != "" {
		return at
	}
	preview, refusal := s.cluster.Preview(n.Name, asked)
	if refusal != nil {
		at.Reason = refusal.Reason
		return at
	}
	at.Shared, at.Moves = preview.Shared, preview.Moves
	for _, g := range preview.Grants {
		given := Allocation{Name: nodecpu.HolderOf(g.ID).Container, Class: g.Class, CPUs: g.CPUs.String()}
		if g.Class == hybrid.Sensitive {
			given.CPUs = nodecpu.FormatCPUs(g.Exclusive, g.Fractions)
		}
		at.Containers = append(at.Containers, given)
	}
	at.rank = s.cluster.Rank(n.Name, asked, cluster.Amounts{
		CPU: n.allocatable.MilliCPU(), FreeCPU: n.free.MilliCPU(), Memory: n.allocatable.Value(podcpu.Memory), FreeMemory: n.free.Value(podcpu.Memory),
	})
	return at
}

// Best returns the first of the best nodes for the pod, or nil if the pod fits on no node.
func (a *Result) Best() *Candidate {
	if len(a.Candidates) == 0 || a.Candidates[0].Reason != "" {
		return nil
	}
	return &a.Candidates[0]
}

// Refusal returns the reasons why no node accepts the pod, in the format of kube-scheduler's event.
func (a *Result) Refusal() string {
	counts := map[string]int{}
	for _, p := range a.Candidates {
		if p.Reason != "" {
			counts[p.Reason]++
		}
	}
	var reasons []string
	for reason, n := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(reasons)
	if len(reasons) == 0 {
		return "0/0 nodes are available."
	}
	return fmt.Sprintf("0/%d nodes are available: %s.", len(a.Candidates), strings.Join(reasons, ", "))
}

func sortedNames(l podcpu.List) []string { return slices.Sorted(maps.Keys(l)) }
