package fleet

import "math/bits"

// A size is a group of kinds of nodes with similar capacities. Clusters have nodes of a few sizes, but measured capacities, such as memory
// without the kernel's part, are hardly ever equal. So the index groups nodes by size, not by kind. The smallest and the largest capacities
// of a size's nodes give bounds for all of its nodes.
type size struct {
	single            *kind     // the only kind; nil if the size has several kinds
	smallest, largest []float64 // scales (newScale) of the smallest capacity of each resource among the kinds, and of the largest capacity
	resourceCounts    [2]int    // lowest and highest number of resources that a kind has
	queryVersion      int64     // Fleet.queryVersion for which the following fields were computed
	aligner           aligner   // upper bound on the alignment of the nodes
	reduction         uint64    // reduction of a node's free share (shareBits) by the container: an upper bound in the order Most, otherwise a lower bound
}

// maxSizes is the maximum number of sizes. Further kinds belong to anySize.
const maxSizes = 1 << sizeBits

// sizeBits is the number of bits of a size in a key.
const sizeBits = 6

// anySize is the index of a size that includes all kinds.
const anySize = 0

// A sizeKey identifies a size by its capacities, in quarters of an octave (quarterOctaves).
type sizeKey [1 + indexedResources]uint8

// sizeOf returns the index of the size to which a kind of nodes belongs, and adds the kind to this size.
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

// quarterOctaves returns the logarithm of an amount, in quarters of an octave (a factor of two), plus an offset; 0 for an amount of 0.
func quarterOctaves(amount int64) uint8 {
	if amount <= 0 {
		return 0
	}
	octave := bits.Len64(uint64(amount))
	return uint8(1 + octave*4 + int(uint64(amount)<<(64-octave)>>61&3))
}

// include includes a kind in a size.
func (s *size) include(k *kind) {
	resources := 0
	for _, factor := range k.scale {
		if factor > 0 {
			resources++
		}
	}
	if s.smallest == nil {
		s.smallest, s.largest, s.single = append(s.smallest, k.scale...), append(s.largest, k.scale...), k
		s.resourceCounts = [2]int{resources, resources}
		return
	}
	s.single = nil
	for i, factor := range k.scale {
		s.smallest[i], s.largest[i] = max(s.smallest[i], factor), min(s.largest[i], factor)
	}
	s.resourceCounts = [2]int{min(s.resourceCounts[0], resources), max(s.resourceCounts[1], resources)}
}

// setQuery computes the fields of a size that depend on the query.
func (s *size) setQuery(q *query, isMost bool) {
	s.aligner.set(q, s.smallest, s.largest)
	if s.single != nil {
		s.reduction = s.single.weigher.share(s.single.weigher.weigh(int64(q.guaranteed), q.Resources))
	} else {
		s.reduction = s.reductionOfKinds(q, isMost)
	}
	if isMost {
		s.reduction++ // because the reduction is rounded down, but must not be too low
	}
}

// reductionOfKinds computes the field reduction of a size with several kinds.
func (s *size) reductionOfKinds(q *query, isMost bool) uint64 {
	scale, resources, slack := s.largest, s.resourceCounts[1], 1-1e-6 // the tolerance exceeds the rounding error of the sums
	if isMost {
		scale, resources, slack = s.smallest, s.resourceCounts[0], 1+1e-6
	}
	sum := float64(q.guaranteed) * scale[0]
	for i, amount := range q.Resources {
		sum += float64(amount) * scale[1+i]
	}
	return uint64(min(sum*slack/wholeShare/float64(resources), 2) * (1 << shareBits))
}

// shareScore returns a lower bound on the scores of nodes of this size. share is the best result of shareForOrder among the nodes.
func (s *size) shareScore(share uint64, isMost bool) score {
	if isMost {
		return score((share - min(share, s.reduction)) >> omittedShareBits)
	}
	return score((share + s.reduction) >> omittedShareBits)
}

// cornerScore returns a lower bound on the scores, in the order Most, of a row's nodes. After the placement, the free share of each
// resource is at least the lowest free share in the row minus the largest requested share.
func (s *size) cornerScore(r *row) score {
	sum := int64(0)
	for i := range min(len(s.smallest), 1+indexedResources) {
		sum += max(0, int64(maxFeature-r.get(invertedShareFeatures[i]))-s.aligner.requested[i]-1)
	}
	return score(sum << (shareBits - 16) / int64(s.resourceCounts[1]) >> omittedShareBits)
}

// invertedShareFeatures has a feature per resource, CPU first: maxFeature minus the free share of the resource.
var invertedShareFeatures = [1 + indexedResources]feature{featureCPUShareInverted, featureShare1Inverted, featureShare2Inverted}
