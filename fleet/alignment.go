package fleet

import "github.com/candor-project/candor/hybrid"

// The pull of a node on a container is the alignment of Tetris (Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM
// 2014): the sum over the resources of the share of a node that the container requests, times the share that it leaves free. So the free
// part of a resource is not stranded for lack of another resource.
//
// The rest of a CPU with a sensitive container's fraction should stay idle, since any other use shares the time of the fraction. Idle time
// remains where the other resources run out first. So the fraction counts against the other resources, and a part of it once more for CPU.

// onceMore is that part. With all of it, too few nodes keep the room for the largest containers: of Google's cell of 2011, 10 to
// 100 % of the containers sensitive, 0.5 % less CPU time was placed in the mean, and 1.1 % at most.
func onceMore(fraction int64) int64 { return fraction / 4 }

// wholeShare is all that a node has of a resource.
const wholeShare = 1<<16 - 1

// pullBits are those of a pull in a score.
const pullBits = 28

// mostPull is more than any pull.
const mostPull = 1 << (pullBits - 1)

// A pull is the pull of nodes of a kind on the question's container, or the highest pull of nodes of many kinds.
type pull struct {
	asks    [1 + maxResources]int64 // shares that the container asks for; CPU, and the further resources
	weights [1 + maxResources]int64
	shift   int64 // reduction by the container itself

	// An upper bound of the pull of nodes with some traits is base plus these terms; for two resources, base plus one of them.
	plus, minus           [1 + moreResources]term // those that pull, the strongest first; those that push
	plusCount, minusCount int
	base                  int64

	// Of two resources: of base and the less of the sums of each of these.
	isPair         bool
	corner, beside [2]term
}

// A term is a trait with its factor.
type term struct {
	trait  trait
	weight int64
}

// set counts a pull on the container of a question. The scales are those of the nodes with the least and
// with the most of each resource.
func (p *pull) set(q *question, least, most []float64) {
	p.weigh(q, least, most)
	p.sort(len(least))
}

// weigh is set as far as pull.of needs it.
func (p *pull) weigh(q *question, least, most []float64) {
	resources := len(least)
	fraction := partOf(int64(q.fraction), least[0])
	p.asks[0] = partOf(int64(q.need), least[0])
	p.weights[0] = p.asks[0] + onceMore(fraction)
	low := partOf(int64(q.need), most[0])
	p.shift = (low + onceMore(partOf(int64(q.fraction), most[0]))) * low
	for i := 1; i < resources; i++ {
		p.asks[i], low = 0, 0
		if i <= len(q.Resources) {
			p.asks[i], low = partOf(q.Resources[i-1], least[i]), partOf(q.Resources[i-1], most[i])
		}
		against := int64(resources - 1)
		p.weights[i] = p.asks[i] - partOf(int64(q.fraction), most[0])/against
		if weight := low - fraction/against; weight < 0 {
			p.shift += weight * p.asks[i]
		} else {
			p.shift += weight * low
		}
	}
}

// sort prepares pull.most.
func (p *pull) sort(resources int) {
	p.plusCount, p.minusCount, p.base = 0, 0, -p.shift
	if p.isPair = resources == 2; p.isPair {
		p.base += min(p.weights[1], 0) * top
		p.pair(p.weights[0], p.weights[1])
		return
	}
	for i, weight := range p.weights[:resources] {
		switch {
		case i > moreResources:
			p.base += max(weight, 0) * wholeShare
		case weight < 0: // the less of it is free the better, and the trait is counted from the top
			p.minus[p.minusCount] = term{traitLeastOf[i], -weight}
			p.minusCount++
			p.base += weight * top
		default:
			at := p.plusCount
			for ; at > 0 && p.plus[at-1].weight < weight; at-- {
				p.plus[at] = p.plus[at-1]
			}
			p.plus[at] = term{traitFreeOf[i], weight}
			p.plusCount++
		}
	}
}

// pair is sort for CPU and a further resource. Traits hold the highest of several weighted sums of the two: for any weights, the sum is not
// above the sums with the nearest weights on either side. For a single node the corner is exact, since those sums are rounded.
func (p *pull) pair(cpu, other int64) {
	p.corner = [2]term{{traitFreeCPU, cpu}, {traitMost1, other}}
	if other < 0 {
		p.corner[1] = term{traitLeast1, -other}
	}
	switch {
	case other < 0 && cpu < -other:
		p.beside = [2]term{{traitCPULess, 2 * cpu}, {traitLeast1, -other - cpu}}
	case other < 0:
		p.beside = [2]term{{traitFreeCPU, cpu + other}, {traitCPULess, -2 * other}}
	case cpu >= 2*other:
		p.beside = [2]term{{traitFreeCPU, cpu - 2*other}, {traitMoreCPU, other << sumShift}}
	case cpu >= other:
		p.beside = [2]term{{traitMoreCPU, (cpu - other) << sumShift}, {traitFreeSum, (2*other - cpu) << sumShift}}
	case 2*cpu >= other:
		p.beside = [2]term{{traitFreeSum, (2*cpu - other) << sumShift}, {traitMoreOther, (other - cpu) << sumShift}}
	default:
		p.beside = [2]term{{traitMoreOther, cpu << sumShift}, {traitMost1, other - 2*cpu}}
	}
}

// of returns the pull of a node with so much free.
func (p *pull) of(shares []int32) int64 {
	sum := -p.shift
	for i, share := range shares {
		sum += p.weights[i] * int64(share)
	}
	return clampPull(sum)
}

// most returns an upper bound on the pull of a part's nodes. Nodes with the most of a resource seldom have the most of another, so the sum
// over all resources bounds it as well.
func (p *pull) most(of *row) int64 {
	if p.isPair {
		return clampPull(p.base + min(sumOf(&p.corner, of), sumOf(&p.beside, of)))
	}
	sum, rest := p.base, int64(of.get(traitFreeSum))<<sumShift
	for i := range p.plusCount {
		term := &p.plus[i]
		free := min(rest, int64(of.get(term.trait)))
		rest -= free
		sum += term.weight * free
	}
	for i := range p.minusCount {
		term := &p.minus[i]
		sum += term.weight * int64(of.get(term.trait))
	}
	return clampPull(sum)
}

// sumOf returns the sum of two terms.
func sumOf(terms *[2]term, of *row) int64 {
	return terms[0].weight*int64(of.get(terms[0].trait)) + terms[1].weight*int64(of.get(terms[1].trait))
}

// traitFreeOf are the traits with the free share of a resource; CPU is the first.
var traitFreeOf = [1 + moreResources]trait{traitFreeCPU, traitMost1, traitMost2}

// clampPull makes a pull of a sum: below mostPull, and not below its negative.
func clampPull(sum int64) int64 {
	return min(max(sum>>8, 1-mostPull), mostPull-1)
}

// partOf returns an amount as a share of the capacity of nodes with a scale, rounded down; more than the capacity counts as the capacity,
// since no such node has room for it.
func partOf(amount int64, scale float64) int64 {
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

// countShares brings them up to date.
func (f *Fleet) countShares(id NodeID) {
	k, shares := f.kinds[f.nodes[id].kind], f.sharesOf(id)
	shares[0] = int32(partOf(int64(f.summaries[id].Free(hybrid.Flexible)), k.scale[0]))
	for i, free := range f.freeOf(id) {
		shares[1+i] = int32(partOf(free, k.scale[1+i]))
	}
}
