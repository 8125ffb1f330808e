package trace

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// The compact file:
//
//	"candor trace 1\n"          the magic, with the version
//	block …                      blocks of events
//	block                        a block of kind 'T': a compactTail as JSON
//	uint64 offset of the last block; "ctrace\n\x00"
//
// A block has a kind ('E' or 'T'), three uint32 (stored size, decoded size, number of events), a CRC-32C of these fields and the data, and
// the data: events compressed with zstd, or the tail as plain JSON. Numbers are little-endian.
//
// An event is a tag and varints. The lower bits of the tag are the kind. The higher bits are a bit for a new shape (Submit), a bit for
// AtStart (machines), or 3 bits for the reason (End). The varints are:
//
//	all       time since the previous event
//	machines  number; CPU and memory, except for MachineRemove
//	Submit    job and task, as differences from the previous Submit; number of the
//	          shape; the shape itself if it is new
//	End       slot
//
// A shape is the part of a Submit that many containers have in common: CPU, memory, class, priority, flags. The file does not store the
// slot of a Submit, because the reader computes it from the earlier Submits and Ends.
const (
	compactMagic = "candor trace 1\n"
	compactEnd   = "ctrace\n\x00"
	compactTrail = 8 + len(compactEnd)
	blockHead    = 1 + 3*4 + 4

	blockEvents = 'E'
	blockTail   = 'T'

	blockBytes = 256 << 10 // size of a block of events before compression: fits a core's cache
	maxBlock   = 1 << 20
	maxRecord  = 64      // maximum size of an event in bytes
	maxShapes  = 1 << 20 // maximum number of remembered shapes
)

// Tag bits.
const (
	tagKind     = 7
	tagNewShape = 1 << 3
	tagAtStart  = 1 << 3
	tagReason   = 3 // shift
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// compactTail is the content of the last block.
type compactTail struct {
	Header Header `json:"header"`
	Report Report `json:"report"`
}

// A shape is the part of a Submit that many containers have in common.
type shape struct {
	cpu, memory     int32
	class, priority uint8
	flags           Flags
}

// codec is the state that the writer and the reader both compute from the events so far.
type codec struct {
	time     Micros
	job      uint64
	task     uint32
	slots    slots
	live     []slotState
	machines uint32 // number of distinct machines so far
}

// slotState is the container in a slot.
type slotState struct {
	job  uint64
	task uint32
	live bool
}

// submit allocates the slot of a Submit.
func (c *codec) submit(job uint64, task uint32) uint32 {
	slot := c.slots.take()
	if int(slot) == len(c.live) {
		c.live = append(c.live, slotState{})
	}
	c.live[slot] = slotState{job, task, true}
	c.job, c.task = job, task
	return slot
}

// end releases a slot. It returns false if no container runs in the slot.
func (c *codec) end(slot uint64) (slotState, bool) {
	if slot >= uint64(len(c.live)) || !c.live[slot].live {
		return slotState{}, false
	}
	s := &c.live[slot]
	s.live = false
	c.slots.give(uint32(slot))
	return *s, true
}

// A blockHeader precedes each block.
type blockHeader struct {
	kind                  byte
	stored, bytes, events uint32
	sum                   uint32
}

// append writes the header with its checksum for the stored bytes.
func (h blockHeader) append(to, stored []byte) []byte {
	from := len(to)
	to = append(to, h.kind)
	to = binary.LittleEndian.AppendUint32(to, uint32(len(stored)))
	to = binary.LittleEndian.AppendUint32(to, h.bytes)
	to = binary.LittleEndian.AppendUint32(to, h.events)
	return binary.LittleEndian.AppendUint32(to, checksum(to[from:], stored))
}

// parseBlockHeader parses the bytes of append.
func parseBlockHeader(b []byte) blockHeader {
	n := binary.LittleEndian.Uint32
	return blockHeader{b[0], n(b[1:]), n(b[5:]), n(b[9:]), n(b[13:])}
}

// checksum returns the CRC-32C of the header, without its own checksum field, and of the stored bytes.
func checksum(head, stored []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, stored)
}

// zigzag maps small differences of either sign to small numbers.
func zigzag(d int64) uint64   { return uint64(d<<1) ^ uint64(d>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// fitsInt32 reports whether an amount fits in an int32.
func fitsInt32(u uint64) bool { return u <= math.MaxInt32 }
