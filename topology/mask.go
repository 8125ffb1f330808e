package topology

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/candor-project/candor/cpuset"
)

var errMask = errors.New("must be a CPU mask, such as 00000000,0000ff0f")

// parseMask parses the kernel's mask format: 32-bit hexadecimal words, separated by commas, the word of the highest
// CPUs first. It drops CPUs that a set cannot contain; the caller returns an error if such a CPU is online.
func parseMask(text []byte) (cpuset.Set, error) {
	var s cpuset.Set
	word, digits := 0, 0 // position in the mask, counted from its end
	for _, t := range slices.Backward(text) {
		if t == ',' {
			if digits != 8 {
				return cpuset.Set{}, fmt.Errorf("mask %q: %w", shorten(text), errMask)
			}
			word, digits = word+1, 0
			continue
		}
		value := hexDigit(t)
		if value < 0 || digits == 8 {
			return cpuset.Set{}, fmt.Errorf("mask %q: %w", shorten(text), errMask)
		}
		first := word*32 + digits*4
		for v := uint(value); v != 0; v &= v - 1 {
			if cpu := first + bits.TrailingZeros(v); cpu < cpuset.Max {
				s.Add(cpu)
			}
		}
		digits++
	}
	if digits == 0 {
		return cpuset.Set{}, fmt.Errorf("mask %q: %w", shorten(text), errMask)
	}
	return s, nil
}

// hexDigit returns the value of a hexadecimal digit, or -1 for other characters.
func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
