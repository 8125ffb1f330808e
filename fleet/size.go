package fleet

import "math/bits"

// Clusters have nodes of a few sizes, but measured capacities (memory without the kernel's part) hardly ever agree. So the index uses sizes
// instead of kinds: groups of nodes with similar amounts of each resource. The bounds of a size follow from the minimum and the maximum of
// its nodes.

// A size is kinds of nodes with about the same capacities.
type size struct {
	single             *kind     // the only kind; nil: there are several
	minScale, maxScale []float64 // scales (newScale) of the least that a node of it has of each resource, and of the most
	resourceCounts     [2]int    // number of the nodes' resources: minimum, maximum
	queryVersion       int64     // Fleet.asks for which the following hold
	alignment          alignment // on the container of the question; the strongest
	reduction          uint64    // reduction of the nodes' free share (shareBits): for Most the maximum, otherwise the minimum
}

// maxSizes bounds the sizes; further sizes count as any size.
const maxSizes = 1 << sizeBits

// sizeBits are those of a size in a key.
const sizeBits = 6

// anySize is the number of the size that all nodes are of.
const anySize = 0

// sizeKey is capacities, in quarters of an octave.
type sizeKey [1 + indexedResources]uint8

// sizeOf returns the number of the size that a kind is of, which knows of it then.
func (f *Fleet) sizeOf(k *kind) uint8 {
	key := sizeKey{quarterOctaves(int64(k.empty.Capacity()))}
	for i := range min(len(k.capacity), indexedResources) {
		key[1+i] = quarterOctaves(k.capacity[i])
	}
	number, known := f.sizeNumbers[key]
	if !known && len(f.sizes) < maxSizes {
		number = uint8(len(f.sizes))
		f.sizeNumbers[key] = number
		f.sizes = append(f.sizes, size{})
	}
	f.sizes[number].include(k)
	f.sizes[anySize].include(k)
	return number
}

// quarterOctaves returns the logarithm of an amount, in quarters of an octave; 0 for 0.
func quarterOctaves(amount int64) uint8 {
	if amount <= 0 {
		return 0
	}
	octave := bits.Len64(uint64(amount))
	return uint8(1 + octave*4 + int(uint64(amount)<<(64-octave)>>61&3))
}

// include extends a size by a kind.
func (s *size) include(k *kind) {
	resources := 0
	for _, factor := range k.scale {
		if factor > 0 {
			resources++
		}
	}
	if s.minScale == nil {
		s.minScale, s.maxScale, s.single = append(s.minScale, k.scale...), append(s.maxScale, k.scale...), k
		s.resourceCounts = [2]int{resources, resources}
		return
	}
	s.single = nil
	for i, factor := range k.scale {
		s.minScale[i], s.maxScale[i] = max(s.minScale[i], factor), min(s.maxScale[i], factor)
	}
	s.resourceCounts = [2]int{min(s.resourceCounts[0], resources), max(s.resourceCounts[1], resources)}
}

// setQuery computes the values of a size for the question.
func (s *size) setQuery(q *query, isMost bool) {
	s.alignment.set(q, s.minScale, s.maxScale)
	if s.single != nil {
		s.reduction = s.single.weigher.share(s.single.weigher.weigh(int64(q.need), q.Resources))
	} else {
		s.reduction = s.reductionOfKinds(q, isMost)
	}
	if isMost {
		s.reduction++ // it is rounded down
	}
}

// reductionOfKinds returns the container's share of the capacity of nodes of several kinds: for Most the maximum, otherwise the minimum.
func (s *size) reductionOfKinds(q *query, isMost bool) uint64 {
	scale, resources, slack := s.maxScale, s.resourceCounts[1], 1-1e-6 // more than the error of the sums
	if isMost {
		scale, resources, slack = s.minScale, s.resourceCounts[0], 1+1e-6
	}
	sum := float64(q.need) * scale[0]
	for i, amount := range q.Resources {
		sum += float64(amount) * scale[1+i]
	}
	return uint64(min(sum*slack/wholeShare/float64(resources), 2) * (1 << shareBits))
}

// shareScore returns a lower bound on the scores of the size's nodes whose free share, in the order's terms, is as good or worse.
func (s *size) shareScore(share uint64, isMost bool) score {
	if isMost {
		return score((share - min(share, s.reduction)) >> scoreBits)
	}
	return score((share + s.reduction) >> scoreBits)
}

// cornerScore returns a lower bound on the scores for Most of nodes that have at least the container's request and the part's minimum of each
// resource.
func (s *size) cornerScore(r *row) score {
	sum := int64(0)
	for i := range min(len(s.minScale), 1+indexedResources) {
		sum += max(0, int64(maxFeature-r.get(invertedShareFeatures[i]))-s.alignment.requested[i]-1)
	}
	return score(sum << (shareBits - 16) / int64(s.resourceCounts[1]) >> scoreBits)
}

// invertedShareFeatures are the traits with the lowest free share of a resource; CPU is the first.
var invertedShareFeatures = [1 + indexedResources]feature{featureCPUShareInverted, featureShare1Inverted, featureShare2Inverted}
