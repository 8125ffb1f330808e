package scheduler

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
)

// Score ranks a node by the order of package fleet. Its criteria are, in this order, the least added shared time, the best topology, and
// the best match of the free resources with the pod's request.
func (p *Plugin) Score(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := stateOf(cycle)
	if s == nil {
		return 0, nil
	}
	if cycle.ShouldRecordPluginMetrics() {
		defer observe(scoreTime, time.Now())
	}
	return scoreOf(p.cluster.Rank(node.Node().Name, s.pod.Pod, amountsOf(node))), nil
}

// amountsOf returns the resources of a node as kube-scheduler counts them.
func amountsOf(node fwk.NodeInfo) cluster.Amounts {
	has, taken := node.GetAllocatable(), node.GetRequested()
	return cluster.Amounts{
		CPU: hybrid.Milli(has.GetMilliCPU()), FreeCPU: hybrid.Milli(has.GetMilliCPU() - taken.GetMilliCPU()),
		Memory: has.GetMemory(), FreeMemory: has.GetMemory() - taken.GetMemory(),
	}
}

// scoreOf converts a rank to a score without loss of information. Lower ranks are better, whereas higher scores are better.
func scoreOf(rank fleet.Rank) int64 { return int64(^uint64(rank) ^ 1<<63) }

// ScoreExtensions returns the method that maps the scores to the framework's range.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives the best nodes 100, and nodes with a lower score less. The result depends only on the order of the scores, because
// differences between ranks have no meaning.
func (*Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	order := make([]int64, len(scores))
	for i := range scores {
		order[i] = scores[i].Score
	}
	slices.SortFunc(order, func(a, b int64) int { return cmp.Compare(b, a) })
	order = slices.Compact(order)
	for i := range scores {
		place, _ := slices.BinarySearchFunc(order, scores[i].Score, func(a, b int64) int { return cmp.Compare(b, a) })
		scores[i].Score = normalized(place, len(order))
	}
	return nil
}

// normalized returns the normalized score for a position in the order of the different scores. Only position 0 gets 100.
func normalized(place, of int) int64 {
	if place == 0 {
		return fwk.MaxScore
	}
	return (fwk.MaxScore - 1) * int64(of-place) / int64(of)
}
