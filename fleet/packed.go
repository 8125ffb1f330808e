package fleet

// Four traits share a word, so that four of them are compared at once: arithmetic on the lanes of a word, without borrows between lanes
// (Warren, "Hacker's Delight", 2-18).

const (
	laneBits  = 16
	lanes     = 64 / laneBits                 // of a word
	laneHighs = uint64(0x8000_8000_8000_8000) // the highest bit of each
)

// lanesAtLeast returns the highest bit of each lane in which a is not below b.
func lanesAtLeast(a, b uint64) uint64 {
	differs := a ^ b
	return (a&differs | ((a|laneHighs)-(b&^laneHighs))&^differs) & laneHighs
}

// lanesEqual returns the highest bit of each lane in which a is b.
func lanesEqual(a, b uint64) uint64 {
	differs := a ^ b
	return laneHighs &^ (differs&^laneHighs + ^laneHighs | differs)
}

// lanesMax returns the larger of a and b in each lane.
func lanesMax(a, b uint64) uint64 {
	larger := lanesAtLeast(a, b) >> (laneBits - 1) * maxFeature // all bits of those where it is a
	return b ^ (a^b)&larger
}
