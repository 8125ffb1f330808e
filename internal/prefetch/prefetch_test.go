package prefetch

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestChangesNothing: a prefetch of any address does not change memory and does not fail.
func TestChangesNothing(t *testing.T) {
	lines := make([][LineSize]byte, 8)
	for i := range lines {
		lines[i][0] = byte(i)
	}
	Line(nil)
	Lines(nil, 3)
	for _, count := range []int{-1, 0, 1, 8, 1000} {
		Lines(unsafe.Pointer(&lines[0]), count)
	}
	Line(unsafe.Pointer(&lines[7]))
	for i := range lines {
		if lines[i] != [LineSize]byte{byte(i)} {
			t.Errorf("line %d: %v", i, lines[i])
		}
	}
}

// Sum prevents the compiler from removing the reads.
var Sum uint32

// BenchmarkFar measures dependent reads of many cache lines in random order, with and without a prefetch some steps
// before.
func BenchmarkFar(b *testing.B) {
	const count = 1 << 20
	lines := make([][LineSize / 4]uint32, count)
	for i := range lines {
		lines[i][1] = 1 // makes the kernel allocate the memory of the line
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(count)
	for _, ahead := range []int{0, 4, 8} {
		b.Run(fmt.Sprintf("ahead=%d", ahead), func(b *testing.B) {
			at := uint32(0)
			for i := range b.N {
				if ahead > 0 {
					Line(unsafe.Pointer(&lines[order[(i+ahead)%count]]))
				}
				at += lines[uint32(order[i%count])+at][0] // adds 0, but makes each read depend on the previous read
			}
			Sum += at
		})
	}
}
