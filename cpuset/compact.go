package cpuset

import "math/bits"

// A Compact is a set in 16 bytes, for programs that have thousands of sets. It allocates more memory only for CPU ids
// of 64 and above. Do not copy a Compact, because both copies would share the memory of the higher ids. The zero value
// is the empty set.
type Compact struct {
	low  uint64
	high *[wordCount - 1]uint64 // ids of 64 and above; nil if no such id was ever added
}

// Set returns a copy of the set as a Set.
func (c *Compact) Set() (s Set) {
	s.words[0] = c.low
	if c.high != nil {
		copy(s.words[1:], c.high[:])
	}
	return s
}

// Assign makes the set equal to s.
func (c *Compact) Assign(s *Set) {
	c.low = s.words[0]
	if c.high == nil {
		if s.words == (Set{words: [wordCount]uint64{c.low}}).words {
			return
		}
		c.high = new([wordCount - 1]uint64)
	}
	copy(c.high[:], s.words[1:])
}

// Add adds a CPU id to the set. It panics on an id outside 0 to Max-1.
func (c *Compact) Add(cpu int) {
	if uint(cpu) < 64 {
		c.low |= 1 << uint(cpu)
		return
	}
	if c.high == nil {
		c.high = new([wordCount - 1]uint64)
	}
	c.high[uint(cpu)/64-1] |= 1 << (uint(cpu) % 64)
}

// Remove removes a CPU id from the set.
func (c *Compact) Remove(cpu int) {
	if uint(cpu) < 64 {
		c.low &^= 1 << uint(cpu)
	} else if c.high != nil {
		c.high[uint(cpu)/64-1] &^= 1 << (uint(cpu) % 64)
	}
}

// Contains reports whether a CPU id is in the set. It returns false for ids outside 0 to Max-1.
func (c *Compact) Contains(cpu int) bool {
	if uint(cpu) < 64 {
		return c.low&(1<<uint(cpu)) != 0
	}
	return c.high != nil && uint(cpu) < Max && c.high[uint(cpu)/64-1]&(1<<(uint(cpu)%64)) != 0
}

// Count returns the number of CPUs in the set.
func (c *Compact) Count() int {
	n := bits.OnesCount64(c.low)
	if c.high != nil {
		for _, w := range c.high {
			n += bits.OnesCount64(w)
		}
	}
	return n
}

// IsEmpty reports whether the set has no CPU.
func (c *Compact) IsEmpty() bool {
	return c.low == 0 && (c.high == nil || *c.high == [wordCount - 1]uint64{})
}

// First returns the lowest CPU id, or -1 if the set is empty.
func (c *Compact) First() int { return c.Next(0) }

// Next returns the lowest CPU id of the set that is equal to or above the given id, or -1 if there is none.
func (c *Compact) Next(from int) int {
	if from = max(from, 0); from < 64 {
		if w := c.low >> from; w != 0 {
			return from + bits.TrailingZeros64(w)
		}
		from = 64
	}
	if c.high == nil {
		return -1
	}
	return c.nextHigh(from)
}

// nextHigh does the work of Next for ids of 64 and above.
func (c *Compact) nextHigh(from int) int {
	mask := ^uint64(0) << (uint(from) % 64)
	for i := from/64 - 1; i < len(c.high); i++ {
		if w := c.high[i] & mask; w != 0 {
			return (i+1)*64 + bits.TrailingZeros64(w)
		}
		mask = ^uint64(0)
	}
	return -1
}

// Overlaps reports whether c and s have a CPU in common.
func (c *Compact) Overlaps(s *Set) bool {
	if c.low&s.words[0] != 0 {
		return true
	}
	if c.high != nil {
		for i, w := range c.high {
			if w&s.words[i+1] != 0 {
				return true
			}
		}
	}
	return false
}

// CountIn returns the number of CPUs that are in c and in s.
func (c *Compact) CountIn(s *Set) int {
	n := bits.OnesCount64(c.low & s.words[0])
	if c.high != nil {
		for i, w := range c.high {
			n += bits.OnesCount64(w & s.words[i+1])
		}
	}
	return n
}
