package fleet

import "github.com/candor-project/candor/hybrid"

// The pull of a node on a container is the alignment of Tetris (Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM
// 2014): the sum over the resources of the share of a node that the container requests, times the share that it leaves free. So the free
// part of a resource is not stranded for lack of another resource.
//
// The rest of a CPU with a sensitive container's fraction should stay idle, since any other use shares the time of the fraction. Idle time
// remains where the other resources run out first. So the fraction counts against the other resources, and a part of it once more for CPU.

// repeatedPart is that part. With all of it, too few nodes keep the room for the largest containers: of Google's cell of 2011, 10 to
// 100 % of the containers sensitive, 0.5 % less CPU time was placed in the mean, and 1.1 % at most.
func repeatedPart(fraction int64) int64 { return fraction / 4 }

// wholeShare is all that a node has of a resource.
const wholeShare = 1<<16 - 1

// alignmentBits are those of a pull in a score.
const alignmentBits = 28

// maxAlignment is more than any pull.
const maxAlignment = 1 << (alignmentBits - 1)

// A alignment is the pull of nodes of a kind on the question's container, or the highest pull of nodes of many kinds.
type alignment struct {
	requested [1 + maxResources]int64 // shares that the container asks for; CPU, and the further resources
	weights   [1 + maxResources]int64
	reduction int64 // reduction by the container itself

	// An upper bound of the pull of nodes with some traits is base plus these terms; for two resources, base plus one of them.
	positive, negative           [1 + indexedResources]term // those that pull, the strongest first; those that push
	positiveCount, negativeCount int
	base                         int64

	// Of two resources: of base and the less of the sums of each of these.
	isPair            bool
	corner, neighbors [2]term
}

// A term is a trait with its factor.
type term struct {
	feature feature
	weight  int64
}

// set counts a pull on the container of a question. The scales are those of the nodes with the least and
// with the most of each resource.
func (p *alignment) set(q *query, minScale, maxScale []float64) {
	p.setWeights(q, minScale, maxScale)
	p.setBound(len(minScale))
}

// setWeights is set as far as pull.of needs it.
func (p *alignment) setWeights(q *query, minScale, maxScale []float64) {
	resources := len(minScale)
	fraction := toShare(int64(q.fraction), minScale[0])
	p.requested[0] = toShare(int64(q.need), minScale[0])
	p.weights[0] = p.requested[0] + repeatedPart(fraction)
	minRequested := toShare(int64(q.need), maxScale[0])
	p.reduction = (minRequested + repeatedPart(toShare(int64(q.fraction), maxScale[0]))) * minRequested
	for i := 1; i < resources; i++ {
		p.requested[i], minRequested = 0, 0
		if i <= len(q.Resources) {
			p.requested[i], minRequested = toShare(q.Resources[i-1], minScale[i]), toShare(q.Resources[i-1], maxScale[i])
		}
		others := int64(resources - 1)
		p.weights[i] = p.requested[i] - toShare(int64(q.fraction), maxScale[0])/others
		if weight := minRequested - fraction/others; weight < 0 {
			p.reduction += weight * p.requested[i]
		} else {
			p.reduction += weight * minRequested
		}
	}
}

// setBound prepares pull.most.
func (p *alignment) setBound(resources int) {
	p.positiveCount, p.negativeCount, p.base = 0, 0, -p.reduction
	if p.isPair = resources == 2; p.isPair {
		p.base += min(p.weights[1], 0) * maxFeature
		p.setPairBound(p.weights[0], p.weights[1])
		return
	}
	for i, weight := range p.weights[:resources] {
		switch {
		case i > indexedResources:
			p.base += max(weight, 0) * wholeShare
		case weight < 0: // the less of it is free the better, and the trait is counted from the top
			p.negative[p.negativeCount] = term{invertedShareFeatures[i], -weight}
			p.negativeCount++
			p.base += weight * maxFeature
		default:
			at := p.positiveCount
			for ; at > 0 && p.positive[at-1].weight < weight; at-- {
				p.positive[at] = p.positive[at-1]
			}
			p.positive[at] = term{shareFeatures[i], weight}
			p.positiveCount++
		}
	}
}

// setPairBound is sort for CPU and a further resource. Traits hold the highest of several weighted sums of the two: for any weights, the sum is not
// above the sums with the nearest weights on either side. For a single node the corner is exact, since those sums are rounded.
func (p *alignment) setPairBound(cpu, other int64) {
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

// valueFor returns the pull of a node with so much free.
func (p *alignment) valueFor(shares []int32) int64 {
	sum := -p.reduction
	for i, share := range shares {
		sum += p.weights[i] * int64(share)
	}
	return clampAlignment(sum)
}

// upperBound returns an upper bound on the pull of a part's nodes. Nodes with the most of a resource seldom have the most of another, so the sum
// over all resources bounds it as well.
func (p *alignment) upperBound(r *row) int64 {
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

// sumOf returns the sum of two terms.
func sumOf(terms *[2]term, r *row) int64 {
	return terms[0].weight*int64(r.get(terms[0].feature)) + terms[1].weight*int64(r.get(terms[1].feature))
}

// shareFeatures are the traits with the free share of a resource; CPU is the first.
var shareFeatures = [1 + indexedResources]feature{featureCPUShare, featureShare1, featureShare2}

// clampAlignment makes a pull of a sum: below mostPull, and not below its negative.
func clampAlignment(sum int64) int64 {
	return min(max(sum>>8, 1-maxAlignment), maxAlignment-1)
}

// toShare returns an amount as a share of the capacity of nodes with a scale, rounded down; more than the capacity counts as the capacity,
// since no such node has room for it.
func toShare(amount int64, scale float64) int64 {
	return int64(min(float64(max(0, amount))*scale, wholeShare))
}

// newScale returns the factors from amounts to shares for each resource, CPU first; 0 for an absent resource. Shares are rounded like the
// weigher's.
func newScale(w *weigher) []float64 {
	scale := make([]float64, 1+len(w.weights))
	scale[0] = wholeShare * float64(w.cpu) / float64(w.common)
	for i, weight := range w.weights {
		scale[1+i] = wholeShare * float64(weight) / float64(w.common)
	}
	return scale
}

// sharesOf returns the shares of a node that are free: of CPU, and of the further resources.
func (f *Fleet) sharesOf(id NodeID) []int32 {
	count := 1 + len(f.options.Resources)
	return f.shares[int(id)*count : (int(id)+1)*count : (int(id)+1)*count]
}

// updateShares brings them up to date.
func (f *Fleet) updateShares(id NodeID) {
	k, shares := f.kinds[f.nodes[id].kind], f.sharesOf(id)
	shares[0] = int32(toShare(int64(f.summaries[id].Free(hybrid.Flexible)), k.scale[0]))
	for i, free := range f.freeOf(id) {
		shares[1+i] = int32(toShare(free, k.scale[1+i]))
	}
}
