// Package cpuset implements sets of logical CPUs with Linux's CPU numbers.
//
// A Set is a plain value of fixed size. It can be copied, compared with == and used as a map key, and
// its set operations do not allocate. Parse and String convert it from and to the kernel's list format,
// "0-3,8,10-11", which cpuset.cpus, taskset and /sys/devices/system/cpu/online use.
//
// A Compact is a smaller set for programs that have thousands of sets.
package cpuset

import (
	"iter"
	"math/bits"
)

// Max is the number of CPU ids that a Set can contain: ids are 0 to Max-1.
const Max = 1024

const wordCount = Max / 64

// Set is a set of CPU ids. The zero value is the empty set.
type Set struct {
	words [wordCount]uint64
}

// Of returns the set of the given CPU ids. It panics on an id outside 0 to Max-1; use Parse for
// external input.
func Of(cpus ...int) Set {
	var s Set
	for _, cpu := range cpus {
		s.Add(cpu)
	}
	return s
}

// Range returns the set of the CPU ids from first to last, both included. The set is empty if last < first. Range
// panics on an id outside 0 to Max-1.
func Range(first, last int) Set {
	var s Set
	for cpu := first; cpu <= last; cpu++ {
		s.Add(cpu)
	}
	return s
}

// Add adds a CPU id to the set. It panics on an id outside 0 to Max-1.
func (s *Set) Add(cpu int) { s.words[uint(cpu)/64] |= 1 << (uint(cpu) % 64) }

// Remove removes a CPU id from the set. It panics on an id outside 0 to Max-1.
func (s *Set) Remove(cpu int) { s.words[uint(cpu)/64] &^= 1 << (uint(cpu) % 64) }

// Contains reports whether a CPU id is in the set. It returns false for ids outside 0 to Max-1.
func (s *Set) Contains(cpu int) bool {
	return uint(cpu) < Max && s.words[uint(cpu)/64]&(1<<(uint(cpu)%64)) != 0
}

// Count returns the number of CPUs in the set.
func (s *Set) Count() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether the set has no CPU.
func (s *Set) IsEmpty() bool { return *s == Set{} }

// First returns the lowest CPU id, or -1 if the set is empty.
func (s *Set) First() int { return s.Next(0) }

// Last returns the highest CPU id, or -1 if the set is empty.
func (s *Set) Last() int {
	for i := wordCount - 1; i >= 0; i-- {
		if w := s.words[i]; w != 0 {
			return i*64 + 63 - bits.LeadingZeros64(w)
		}
	}
	return -1
}

// Next returns the lowest CPU id of the set that is equal to or above the given id, or -1 if there is none. A loop over
// a set with Next needs no memory allocation:
//
//	for cpu := s.First(); cpu >= 0; cpu = s.Next(cpu + 1) { … }
func (s *Set) Next(from int) int {
	if from < 0 {
		from = 0
	}
	if from >= Max {
		return -1
	}
	i := from / 64
	w := s.words[i] &^ (1<<(uint(from)%64) - 1)
	for w == 0 {
		if i++; i == wordCount {
			return -1
		}
		w = s.words[i]
	}
	return i*64 + bits.TrailingZeros64(w)
}

// All yields the CPU ids in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for cpu := s.First(); cpu >= 0; cpu = s.Next(cpu + 1) {
			if !yield(cpu) {
				return
			}
		}
	}
}

// Slice returns the CPU ids in ascending order.
func (s Set) Slice() []int {
	cpus := make([]int, 0, s.Count())
	for cpu := s.First(); cpu >= 0; cpu = s.Next(cpu + 1) {
		cpus = append(cpus, cpu)
	}
	return cpus
}

// Union returns the CPUs that are in s or in t.
func (s Set) Union(t Set) Set {
	for i := range s.words {
		s.words[i] |= t.words[i]
	}
	return s
}

// Intersect returns the CPUs that are in s and in t.
func (s Set) Intersect(t Set) Set {
	for i := range s.words {
		s.words[i] &= t.words[i]
	}
	return s
}

// Minus returns the CPUs of s that are not in t.
func (s Set) Minus(t Set) Set {
	for i := range s.words {
		s.words[i] &^= t.words[i]
	}
	return s
}

// AddAll adds the CPUs of t to the set.
func (s *Set) AddAll(t *Set) {
	for i := range s.words {
		s.words[i] |= t.words[i]
	}
}

// RemoveAll removes the CPUs of t from the set.
func (s *Set) RemoveAll(t *Set) {
	for i := range s.words {
		s.words[i] &^= t.words[i]
	}
}

// Overlaps reports whether s and t have a CPU in common.
func (s *Set) Overlaps(t *Set) bool {
	for i := range s.words {
		if s.words[i]&t.words[i] != 0 {
			return true
		}
	}
	return false
}

// SubsetOf reports whether every CPU of s is in t.
func (s *Set) SubsetOf(t *Set) bool {
	for i := range s.words {
		if s.words[i]&^t.words[i] != 0 {
			return false
		}
	}
	return true
}

// CountIn returns the number of CPUs that are in s and in t.
func (s *Set) CountIn(t *Set) int {
	n := 0
	for i := range s.words {
		n += bits.OnesCount64(s.words[i] & t.words[i])
	}
	return n
}

// Lowest returns the n lowest CPUs of the set, or the whole set if it has fewer CPUs.
func (s Set) Lowest(n int) Set {
	var out Set
	for i, w := range s.words {
		for ; w != 0 && n > 0; n-- {
			low := w & -w
			out.words[i] |= low
			w &^= low
		}
	}
	return out
}
