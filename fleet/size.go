package fleet

import "math/bits"

// Clusters have nodes of a few sizes, but where capacities are measured (memory without what
// the kernel keeps), hardly two are the same. So the index does not go by kinds but by sizes: nodes that
// have about as much of each resource. What they pull at most, and what a container is to them
// at least, follows from the least and the most that one of them has.

// A size is kinds of nodes with about the same capacities.
type size struct {
	single      *kind     // the only kind; nil: there are several
	least, most []float64 // scales (newScale) of the least that a node of it has of each resource, and of the most
	counted     [2]int    // how many resources the nodes have: the fewest, the most
	asked       int64     // Fleet.asks for which the following hold
	pull        pull      // on the container of the question; the strongest
	shift       uint64    // what that takes of the nodes' share of all that is free (shareBits): by Most the most, else the least
}

// maxSizes bounds the sizes; nodes of others count as of any.
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

// quarters is the logarithm of an amount, in quarters of an octave, and 0 of nothing.
func quarters(amount int64) uint8 {
	if amount <= 0 {
		return 0
	}
	octave := bits.Len64(uint64(amount))
	return uint8(1 + octave*4 + int(uint64(amount)<<(64-octave)>>61&3))
}

// include makes a size tell of one more kind.
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

// ask sets what the nodes of a size make of the question.
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

// about returns what a container takes of all that nodes of several kinds have: by Most at most, else at least.
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

// shareScore returns what no score is below of nodes of the size whose share of all that is free, as
// the order counts it, is as good or worse.
func (s *size) shareScore(share uint64, most bool) score {
	if most {
		return score((share - min(share, s.shift)) >> scoreBits)
	}
	return score((share + s.shift) >> scoreBits)
}

// corner returns what no score by Most is below of nodes that have as much of each resource as
// the container asks for and as all of the part have.
func (s *size) corner(p *row) score {
	rest := int64(0)
	for i := range min(len(s.least), 1+moreResources) {
		rest += max(0, int64(top-p.get(traitLeastOf[i]))-s.pull.asks[i]-1)
	}
	return score(rest << (shareBits - 16) / int64(s.counted[1]) >> scoreBits)
}

// traitLeastOf are the traits that tell of the least free share of a resource; CPU is the first.
var traitLeastOf = [1 + moreResources]trait{traitLeastCPU, traitLeast1, traitLeast2}
