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
	n.mu.Lock()
	defer n.mu.Unlock()
	quote, refusal := n.ask(p)
	if refusal != nil {
		return WorstRank
	}
	memory := []int64{clamp(a.FreeMemory)}
	if n.base == nil {
		scale := fleet.NewScale(max(a.CPU, 1), []int64{clamp(a.Memory)})
		return scale.Rank(&p.asked, &quote, &hybrid.Figures{Free: [2]int32{int32(a.FreeCPU), int32(a.FreeCPU)}}, memory)
	}
	if n.memory != a.Memory || n.scaleOf != n.base {
		n.scale, n.memory, n.scaleOf = fleet.NewScale(n.base.Capacity(), []int64{clamp(a.Memory)}), a.Memory, n.base
	}
	return n.scale.Rank(&p.asked, &quote, &n.figures, memory)
}

// clamp keeps an amount within what fleet counts.
func clamp(amount int64) int64 { return min(max(amount, 0), fleet.MaxAmount) }
