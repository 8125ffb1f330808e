package cluster

import (
	"math"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
)

// Amounts are the allocatable and free resources of a node as Kubernetes counts them.
type Amounts struct {
	CPU, FreeCPU       hybrid.Milli // only used for a node without a report
	Memory, FreeMemory int64        // bytes
}

// WorstRank is the rank of a node on which a pod does not fit.
const WorstRank fleet.Rank = math.MaxUint64

// Rank returns the rank of a node for a pod. Lower ranks are better; package fleet defines the order.
func (c *Cluster) Rank(name string, p *Pod, a Amounts) fleet.Rank {
	return c.lookupOrNew(name).rank(p, a)
}

func (n *node) rank(p *Pod, a Amounts) fleet.Rank {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rankLocked(p, a)
}

// rankLocked does the work of rank for a caller that holds n.mu.
func (n *node) rankLocked(p *Pod, a Amounts) fleet.Rank {
	quote, refusal := n.quote(p)
	if refusal != nil {
		return WorstRank
	}
	return n.rankBy(p, a, &quote)
}

// An outline is the part of a node's state from which most ranks can be computed. The type is small, so that an outline occupies
// few cache lines.
type outline struct {
	hasReport    bool // the node has a report
	isOpen       bool // the node has a report, is not silent, and is not closed (isClosed)
	capacity     hybrid.Milli
	summary      hybrid.Summary
	figures      hybrid.Figures
	scale        fleet.Scale
	scaleAmounts scaleAmounts
}

// scaleAmounts are the amounts of a node's resources for which outline.scale was computed.
type scaleAmounts struct {
	cpu    hybrid.Milli
	memory int64
}

// summarize updates the outline from a node, or from nil for a node without a report.
func (o *outline) summarize(n *hybrid.Node) {
	if o.hasReport = n != nil; !o.hasReport {
		return
	}
	o.capacity = n.Capacity()
	n.Summarize(&o.summary)
	o.figures = o.summary.Figures()
}

// rankBy computes the rank of the node for a pod. quote is the cost of the pod on the node.
func (o *outline) rankBy(p *Pod, a Amounts, quote *hybrid.Quote) fleet.Rank {
	cpu, figures := o.capacity, &o.figures
	if !o.hasReport {
		cpu = max(a.CPU, 1)
		free := int32(min(max(a.FreeCPU, math.MinInt32), math.MaxInt32)) // a Node object can state any amount
		figures = &hybrid.Figures{Free: [2]int32{free, free}}
	}
	if is := (scaleAmounts{cpu, clamp(a.Memory)}); o.scaleAmounts != is {
		o.scale, o.scaleAmounts = fleet.NewScale(is.cpu, []int64{is.memory}), is
	}
	return o.scale.Rank(&p.query, quote, figures, []int64{clamp(a.FreeMemory)})
}

// clamp limits an amount to the range that fleet supports.
func clamp(amount int64) int64 { return min(max(amount, 0), fleet.MaxAmount) }
