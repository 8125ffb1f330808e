package cluster

import (
	"math"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// Amounts are the total and free resources of a node in Kubernetes' own accounts.
type Amounts struct {
	CPU, FreeCPU       hybrid.Milli // used where the node has no report
	Memory, FreeMemory int64        // bytes
}

// WorstRank is that of a node on which a pod does not fit.
const WorstRank fleet.Rank = math.MaxUint64

// Rank returns the rank of a node for a pod, by the order of fleet: less is better.
func (c *Cluster) Rank(name string, p *Pod, a Amounts) fleet.Rank {
	return c.findAny(name).rank(p, a)
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

// An outline is a node as far as most ranks follow from it, in few cache lines.
type outline struct {
	reports  bool // the node has a report
	isOpen   bool // and room for all reservations
	capacity hybrid.Milli
	summary  hybrid.Summary
	figures  hybrid.Figures
	scale    fleet.Scale
	scaleOf  amounts
}

// amounts are all that a node has.
type amounts struct {
	cpu    hybrid.Milli
	memory int64
}

// draw updates an outline from the node; nil is a node without a report.
func (o *outline) draw(n *hybrid.Node) {
	if o.reports = n != nil; !o.reports {
		return
	}
	o.capacity = n.Capacity()
	n.Summarize(&o.summary)
	o.figures = o.summary.Figures()
}

// rankBy returns the rank of a node from the pod's quote there.
func (o *outline) rankBy(p *Pod, a Amounts, quote *hybrid.Quote) fleet.Rank {
	cpu, figures := o.capacity, &o.figures
	if !o.reports {
		cpu = max(a.CPU, 1)
		free := int32(min(max(a.FreeCPU, math.MinInt32), math.MaxInt32)) // a node object can claim any amount
		figures = &hybrid.Figures{Free: [2]int32{free, free}}
	}
	if is := (amounts{cpu, clamp(a.Memory)}); o.scaleOf != is {
		o.scale, o.scaleOf = fleet.NewScale(is.cpu, []int64{is.memory}), is
	}
	return o.scale.Rank(&p.asked, quote, figures, []int64{clamp(a.FreeMemory)})
}

// clamp limits an amount to fleet's range.
func clamp(amount int64) int64 { return min(max(amount, 0), fleet.MaxAmount) }
