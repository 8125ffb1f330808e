package cluster

import (
	"math"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// Amounts are what a node has, and has free, by Kubernetes' own accounts.
type Amounts struct {
	CPU, FreeCPU       hybrid.Milli // used where the node has no report
	Memory, FreeMemory int64        // bytes
}

// WorstRank is that of a node on which a pod does not fit.
const WorstRank fleet.Rank = math.MaxUint64

// Rank says how good a node is for a pod, by the order of fleet: less is better.
func (c *Cluster) Rank(name string, p *Pod, a Amounts) fleet.Rank {
	n := c.find(name)
	if n == nil {
		n = &node{}
	}
	return n.rank(p, a)
}

func (n *node) rank(p *Pod, a Amounts) fleet.Rank {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rankLocked(p, a)
}

// rankLocked is rank where the node is locked.
func (n *node) rankLocked(p *Pod, a Amounts) fleet.Rank {
	quote, refusal := n.ask(p)
	if refusal != nil {
		return WorstRank
	}
	return n.rankBy(p, a, &quote)
}

// rankBy is the rank of a node by what a pod costs there.
func (n *node) rankBy(p *Pod, a Amounts, quote *hybrid.Quote) fleet.Rank {
	cpu, figures := max(a.CPU, 1), &n.figures
	if n.base != nil {
		cpu = n.capacity
	} else {
		figures = &hybrid.Figures{Free: [2]int32{int32(a.FreeCPU), int32(a.FreeCPU)}}
	}
	if is := (capacity{cpu, clamp(a.Memory)}); n.scaleOf != is {
		n.scale, n.scaleOf = fleet.NewScale(is.cpu, []int64{is.memory}), is
	}
	return n.scale.Rank(&p.asked, quote, figures, []int64{clamp(a.FreeMemory)})
}

// A capacity is what all of a node is.
type capacity struct {
	cpu    hybrid.Milli
	memory int64
}

// clamp keeps an amount within what fleet counts.
func clamp(amount int64) int64 { return min(max(amount, 0), fleet.MaxAmount) }
