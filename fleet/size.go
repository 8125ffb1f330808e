package fleet

import "math/bits"

// Clusters have nodes of a few sizes, but measured capacities (memory without the kernel's part) hardly ever agree. So the index uses sizes
// instead of kinds: groups of nodes with similar amounts of each resource. The bounds of a size follow from the minimum and the maximum of
// its nodes.

// A size is kinds of nodes with about the same capacities.
type size struct {
	single      *kind     // the only kind; nil: there are several
	least, most []float64 // scales (newScale) of the least that a node of it has of each resource, and of the most
	counted     [2]int    // number of the nodes' resources: minimum, maximum
	asked       int64     // Fleet.asks for which the following hold
	pull        pull      // on the container of the question; the strongest
	shift       uint64    // reduction of the nodes' free share (shareBits): for Most the maximum, otherwise the minimum
}

// maxSizes bounds the sizes; further sizes count as any size.
const maxSizes = 1 << sizeBits

// sizeBits are those of a size in a key.
const sizeBits = 6

// anySize is the number of the size that all nodes are of.
const anySize = 0

// sizeKey is capacities, in quarters of an octave.
type sizeKey [1 + moreResources]uint8

// sizeOf returns the number of the size that a kind is of, which knows of it then.
func (f *Fleet) sizeOf(k *kind) uint8 {
	key := sizeKey{quarters(int64(k.empty.Capacity()))}
	for i := range min(len(k.capacity), moreResources) {
		key[1+i] = quarters(k.capacity[i])
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

// quarters returns the logarithm of an amount, in quarters of an octave; 0 for 0.
func quarters(amount int64) uint8 {
	if amount <= 0 {
		return 0
	}
	octave := bits.Len64(uint64(amount))
	return uint8(1 + octave*4 + int(uint64(amount)<<(64-octave)>>61&3))
}

// include extends a size by a kind.
func (s *size) include(k *kind) {
	counted := 0
	for _, one := range k.scale {
		if one > 0 {
			counted++
		}
	}
	if s.least == nil {
		s.least, s.most, s.single = append(s.least, k.scale...), append(s.most, k.scale...), k
		s.counted = [2]int{counted, counted}
		return
	}
	s.single = nil
	for i, one := range k.scale {
		s.least[i], s.most[i] = max(s.least[i], one), min(s.most[i], one)
	}
	s.counted = [2]int{min(s.counted[0], counted), max(s.counted[1], counted)}
}

// ask computes the values of a size for the question.
func (s *size) ask(q *question, most bool) {
	s.pull.set(q, s.least, s.most)
	if s.single != nil {
		s.shift = s.single.weigher.share(s.single.weigher.weigh(int64(q.need), q.Resources))
	} else {
		s.shift = s.about(q, most)
	}
	if most {
		s.shift++ // it is rounded down
	}
}

// about returns the container's share of the capacity of nodes of several kinds: for Most the maximum, otherwise the minimum.
func (s *size) about(q *question, most bool) uint64 {
	scale, counted, slack := s.most, s.counted[1], 1-1e-6 // more than the error of the sums
	if most {
		scale, counted, slack = s.least, s.counted[0], 1+1e-6
	}
	sum := float64(q.need) * scale[0]
	for i, amount := range q.Resources {
		sum += float64(amount) * scale[1+i]
	}
	return uint64(min(sum*slack/wholeShare/float64(counted), 2) * (1 << shareBits))
}

// shareScore returns a lower bound on the scores of the size's nodes whose free share, in the order's terms, is as good or worse.
func (s *size) shareScore(share uint64, most bool) score {
	if most {
		return score((share - min(share, s.shift)) >> scoreBits)
	}
	return score((share + s.shift) >> scoreBits)
}

// corner returns a lower bound on the scores for Most of nodes that have at least the container's request and the part's minimum of each
// resource.
func (s *size) corner(p *row) score {
	rest := int64(0)
	for i := range min(len(s.least), 1+moreResources) {
		rest += max(0, int64(top-p.get(traitLeastOf[i]))-s.pull.asks[i]-1)
	}
	return score(rest << (shareBits - 16) / int64(s.counted[1]) >> scoreBits)
}

// traitLeastOf are the traits with the lowest free share of a resource; CPU is the first.
var traitLeastOf = [1 + moreResources]trait{traitLeastCPU, traitLeast1, traitLeast2}
