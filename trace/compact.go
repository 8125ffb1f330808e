package trace

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// The format of a compact file:
//
//	"candor trace 1\n"          the magic, with the version
//	block …                      of events
//	block                        of kind 'T': JSON of a compactTail
//	uint64 offset of the last block; "ctrace\n\x00"
//
// A block consists of a header and the stored bytes. The header has a kind ('E' or 'T'), three uint32 (the stored size, the decoded size,
// the number of events), and a CRC-32C of these values and the stored bytes. The stored bytes of events are compressed with zstd; the tail
// is not compressed. Numbers are little-endian.
//
// An event consists of a tag and varints. The low 3 bits of the tag are the kind. Depending on the kind, the higher bits are a bit for a
// new shape, a bit for AtStart, or the reason. The varints depend on the kind, too:
//
//	all       time since the previous event
//	machines  number; unless removed, CPU and memory
//	Submit    job and task, as differences to the last Submit's; number of its
//	          shape; a new shape follows its number
//	End       slot
//
// A shape is the common part of similar containers: CPU, memory, class, priority, flags. The slot of a Submit is not written,
// because it follows from the previous events: it is the slot that was released last, or a new slot if no slot is free.
const (
	compactMagic = "candor trace 1\n"
	compactEnd   = "ctrace\n\x00"
	compactTrail = 8 + len(compactEnd)
	blockHead    = 1 + 3*4 + 4

	blockEvents = 'E'
	blockTail   = 'T'

	blockBytes = 256 << 10 // size of a block before compression; it fits into a core's cache
	maxBlock   = 1 << 20
	maxRecord  = 64      // upper bound of the size of an event
	maxShapes  = 1 << 20 // maximum number of shapes that get a number
)

// Bits of a tag.
const (
	tagKind     = 7
	tagNewShape = 1 << 3
	tagAtStart  = 1 << 3
	tagReason   = 3 // number of bits below the reason
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A compactTail is the content of the last block.
type compactTail struct {
	Header Header `json:"header"`
	Report Report `json:"report"`
}

// A shape is the common part of similar containers.
type shape struct {
	cpu, memory     int32
	class, priority uint8
	flags           Flags
}

// A codec is the state that both writer and reader compute from the previous events.
type codec struct {
	time     Micros
	job      uint64
	task     uint32
	slots    slots
	live     []slotState
	machines uint32 // number of machines so far
}

// A slotState is the container in a slot.
type slotState struct {
	job  uint64
	task uint32
	live bool
}

// submit returns the slot of a new container.
func (c *codec) submit(job uint64, task uint32) uint32 {
	slot := c.slots.take()
	if int(slot) == len(c.live) {
		c.live = append(c.live, slotState{})
	}
	c.live[slot] = slotState{job, task, true}
	c.job, c.task = job, task
	return slot
}

// end releases a slot and returns the container that ran in the slot, or false if no container ran there.
func (c *codec) end(slot uint64) (slotState, bool) {
	if slot >= uint64(len(c.live)) || !c.live[slot].live {
		return slotState{}, false
	}
	s := &c.live[slot]
	s.live = false
	c.slots.give(uint32(slot))
	return *s, true
}

// A blockHeader precedes the stored bytes of a block.
type blockHeader struct {
	kind                  byte
	stored, bytes, events uint32
	sum                   uint32
}

// append appends the encoded header to a buffer. The header includes the checksum of the header and the stored bytes.
func (h blockHeader) append(to, stored []byte) []byte {
	from := len(to)
	to = append(to, h.kind)
	to = binary.LittleEndian.AppendUint32(to, uint32(len(stored)))
	to = binary.LittleEndian.AppendUint32(to, h.bytes)
	to = binary.LittleEndian.AppendUint32(to, h.events)
	return binary.LittleEndian.AppendUint32(to, checksum(to[from:], stored))
}

// parseBlockHeader parses the output of append.
func parseBlockHeader(b []byte) blockHeader {
	n := binary.LittleEndian.Uint32
	return blockHeader{b[0], n(b[1:]), n(b[5:]), n(b[9:]), n(b[13:])}
}

// checksum returns the checksum of the header (without the field sum) and the stored bytes.
func checksum(head, stored []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, stored)
}

// zigzag maps small differences of either sign to small numbers.
func zigzag(d int64) uint64   { return uint64(d<<1) ^ uint64(d>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// fitsInt32 reports whether an amount fits into an int32.
func fitsInt32(u uint64) bool { return u <= math.MaxInt32 }
