package fleet

import "github.com/candor-project/candor/hybrid"

// The alignment of a node with a container is the score of Tetris (Grandl et al., "Multi-Resource Packing for Cluster
// Schedulers", SIGCOMM 2014). For each resource, it multiplies the share of the node that the container requests by the share
// that is free after the placement. The alignment is the sum of these products. The node with the highest alignment is the best:
// it has much free of the resources of which the container requests much. This avoids nodes that run out of one resource while
// much of another is free.
//
// If a CPU runs a fraction of a sensitive container, the rest of the CPU's time should stay idle. Any other use of the CPU makes the
// fraction's time shared. The rest stays idle on a node whose other resources run out first. To prefer such nodes, the aligner lowers the
// weights of the other resources by the fraction, and raises the weight of CPU by a part of the fraction (repeatedPart).

// repeatedPart returns the part of a fraction that increases the weight of CPU. With the whole fraction, too few nodes retain room for the
// largest containers. This cost 0.5 % of the placed CPU time in the mean, and at most 1.1 %. The figures are from replays of Google's cell
// of 2011, with 10 to 100 % of the containers sensitive.
func repeatedPart(fraction int64) int64 { return fraction / 4 }

// wholeShare is the share that stands for the whole capacity of a resource.
const wholeShare = 1<<16 - 1

// alignmentBits is the number of bits of an alignment in a score.
const alignmentBits = 28

// maxAlignment is above every alignment.
const maxAlignment = 1 << (alignmentBits - 1)

// An aligner computes the alignment of nodes of a kind with the query's container, or an upper bound for nodes of several kinds. CPU is the
// resource at index 0, and the further resources follow.
type aligner struct {
	requested [1 + maxResources]int64 // share of a node that the container requests; the largest share among the kinds
	weights   [1 + maxResources]int64 // a node's alignment is the sum of weights times free shares, minus reduction
	reduction int64                   // sum of weights times requested shares, which the container takes from the free shares; the lowest sum among the kinds

	// upperBound adds these terms to base, unless isPair.
	positive, negative           [1 + indexedResources]term // resources with positive weights, the largest weight first; resources with negative weights
	positiveCount, negativeCount int
	base                         int64

	// With two resources (isPair), upperBound adds the sum of corner or the sum of neighbors to base, whichever is lower.
	isPair            bool
	corner, neighbors [2]term
}

// A term is a feature times a weight.
type term struct {
	feature feature
	weight  int64
}

// set sets the aligner for the container of a query. For each resource, smallest has the scale (newScale) of the node with the
// least capacity, and largest the scale of the node with the most capacity.
func (p *aligner) set(q *query, smallest, largest []float64) {
	p.setWeights(q, smallest, largest)
	p.setBound(len(smallest))
}

// setWeights computes the fields that valueFor reads.
func (p *aligner) setWeights(q *query, smallest, largest []float64) {
	resources := len(smallest)
	fraction := toShare(int64(q.fraction), smallest[0])
	p.requested[0] = toShare(int64(q.guaranteed), smallest[0])
	p.weights[0] = p.requested[0] + repeatedPart(fraction)
	minRequested := toShare(int64(q.guaranteed), largest[0])
	p.reduction = (minRequested + repeatedPart(toShare(int64(q.fraction), largest[0]))) * minRequested
	for i := 1; i < resources; i++ {
		p.requested[i], minRequested = 0, 0
		if i <= len(q.Resources) {
			p.requested[i], minRequested = toShare(q.Resources[i-1], smallest[i]), toShare(q.Resources[i-1], largest[i])
		}
		others := int64(resources - 1)
		p.weights[i] = p.requested[i] - toShare(int64(q.fraction), largest[0])/others
		if weight := minRequested - fraction/others; weight < 0 {
			p.reduction += weight * p.requested[i]
		} else {
			p.reduction += weight * minRequested
		}
	}
}

// setBound computes the fields that upperBound reads.
func (p *aligner) setBound(resources int) {
	p.positiveCount, p.negativeCount, p.base = 0, 0, -p.reduction
	if p.isPair = resources == 2; p.isPair {
		p.base += min(p.weights[1], 0) * maxFeature
		p.setPairBound(p.weights[0], p.weights[1])
		return
	}
	for resource, weight := range p.weights[:resources] {
		switch {
		case resource > indexedResources:
			p.base += max(weight, 0) * wholeShare
		case weight < 0: // a lower free share is better, so the term needs the inverted feature
			p.negative[p.negativeCount] = term{invertedShareFeatures[resource], -weight}
			p.negativeCount++
			p.base += weight * maxFeature
		default:
			i := p.positiveCount
			for ; i > 0 && p.positive[i-1].weight < weight; i-- {
				p.positive[i] = p.positive[i-1]
			}
			p.positive[i] = term{shareFeatures[resource], weight}
			p.positiveCount++
		}
	}
}

// setPairBound does the work of setBound for CPU and one further resource. The alignment is a weighted sum of the two free shares. corner
// bounds the sum by the highest free share of each resource. neighbors uses features that hold the highest weighted sum of a node for
// several fixed ratios of the two weights. neighbors combines the features with the next smaller and the next larger ratio, and is usually
// lower than corner. For a single node, only corner is exact, because the weighted sums in features are rounded.
func (p *aligner) setPairBound(cpu, other int64) {
	p.corner = [2]term{{featureCPUShare, cpu}, {featureShare1, other}}
	if other < 0 {
		p.corner[1] = term{featureShare1Inverted, -other}
	}
	switch {
	case other < 0 && cpu < -other:
		p.neighbors = [2]term{{featureCPUMinusOther, 2 * cpu}, {featureShare1Inverted, -other - cpu}}
	case other < 0:
		p.neighbors = [2]term{{featureCPUShare, cpu + other}, {featureCPUMinusOther, -2 * other}}
	case cpu >= 2*other:
		p.neighbors = [2]term{{featureCPUShare, cpu - 2*other}, {featureSumTwiceCPU, other << sumShift}}
	case cpu >= other:
		p.neighbors = [2]term{{featureSumTwiceCPU, (cpu - other) << sumShift}, {featureShareSum, (2*other - cpu) << sumShift}}
	case 2*cpu >= other:
		p.neighbors = [2]term{{featureShareSum, (2*cpu - other) << sumShift}, {featureSumTwiceOther, (other - cpu) << sumShift}}
	default:
		p.neighbors = [2]term{{featureSumTwiceOther, cpu << sumShift}, {featureShare1, other - 2*cpu}}
	}
}

// valueFor returns the alignment of a node with these free shares.
func (p *aligner) valueFor(shares []int32) int64 {
	sum := -p.reduction
	for i, share := range shares {
		sum += p.weights[i] * int64(share)
	}
	return clampAlignment(sum)
}

// upperBound returns an upper bound on the alignment of the nodes of a row. A single node seldom has the highest free share of several
// resources. So the highest sum of the free shares (featureShareSum) limits the terms, too.
func (p *aligner) upperBound(r *row) int64 {
	if p.isPair {
		return clampAlignment(p.base + min(sumOf(&p.corner, r), sumOf(&p.neighbors, r)))
	}
	sum, rest := p.base, int64(r.get(featureShareSum))<<sumShift
	for i := range p.positiveCount {
		term := &p.positive[i]
		free := min(rest, int64(r.get(term.feature)))
		rest -= free
		sum += term.weight * free
	}
	for i := range p.negativeCount {
		term := &p.negative[i]
		sum += term.weight * int64(r.get(term.feature))
	}
	return clampAlignment(sum)
}

// sumOf returns the sum of two terms for a row.
func sumOf(terms *[2]term, r *row) int64 {
	return terms[0].weight*int64(r.get(terms[0].feature)) + terms[1].weight*int64(r.get(terms[1].feature))
}

// shareFeatures are the fields of a row that hold the free share of each resource, CPU first.
var shareFeatures = [1 + indexedResources]feature{featureCPUShare, featureShare1, featureShare2}

// clampAlignment scales a sum down to an alignment and clamps it between -maxAlignment and maxAlignment, both excluded.
func clampAlignment(sum int64) int64 {
	return min(max(sum>>8, 1-maxAlignment), maxAlignment-1)
}

// toShare converts an amount to a share of a capacity, rounded down. An amount above the capacity counts as the capacity, because no node
// with this capacity has room for the container.
func toShare(amount int64, scale float64) int64 {
	return int64(min(float64(max(0, amount))*scale, wholeShare))
}

// newScale returns, for each resource, CPU first, the factor that converts an amount to a share; 0 for a resource that the nodes do not
// have. The factors are computed from the weigher's rounded weights.
func newScale(w *weigher) []float64 {
	scale := make([]float64, 1+len(w.weights))
	scale[0] = wholeShare * float64(w.cpu) / float64(w.common)
	for i, weight := range w.weights {
		scale[1+i] = wholeShare * float64(weight) / float64(w.common)
	}
	return scale
}

// sharesOf returns the free shares of a node, CPU first. The caller may change them.
func (f *Fleet) sharesOf(id NodeID) []int32 {
	count := 1 + len(f.options.Resources)
	return f.shares[int(id)*count : (int(id)+1)*count : (int(id)+1)*count]
}

// updateShares recomputes the free shares of a node.
func (f *Fleet) updateShares(id NodeID) {
	k, shares := f.kinds[f.nodes[id].kind], f.sharesOf(id)
	shares[0] = int32(toShare(int64(f.summaries[id].Free(hybrid.Flexible)), k.scale[0]))
	for i, free := range f.freeOf(id) {
		shares[1+i] = int32(toShare(free, k.scale[1+i]))
	}
}
