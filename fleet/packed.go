package fleet

// A word holds four features, each in a lane of 16 bits. The functions below compare four lanes at once, without borrows between lanes
// (Warren, "Hacker's Delight", 2-18).

const (
	laneBits  = 16
	lanes     = 64 / laneBits                 // in a word
	laneHighs = uint64(0x8000_8000_8000_8000) // the highest bit of each lane
)

// lanesAtLeast returns a word in which the highest bit of a lane is set if a >= b in this lane.
func lanesAtLeast(a, b uint64) uint64 {
	differs := a ^ b
	return (a&differs | ((a|laneHighs)-(b&^laneHighs))&^differs) & laneHighs
}

// lanesEqual returns a word in which the highest bit of a lane is set if a == b in this lane.
func lanesEqual(a, b uint64) uint64 {
	differs := a ^ b
	return laneHighs &^ (differs&^laneHighs + ^laneHighs | differs)
}

// lanesMax returns the maximum of a and b in each lane.
func lanesMax(a, b uint64) uint64 {
	larger := lanesAtLeast(a, b) >> (laneBits - 1) * maxFeature // all bits of each lane in which a >= b
	return b ^ (a^b)&larger
}
