package nodemap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/candor-project/candor/hybrid"
)

const (
	magic      = "CNDR"
	version    = 1
	headerSize = 20
	recordSize = 18 // without the name and the CPUs
)

// Bounds of a record.
const (
	maxName = 253 // bytes: the longest name of a Node
	maxCPUs = 1<<16 - 1
)

// MaxRevision is the largest revision that a packed map can have: JavaScript's largest exact integer.
const MaxRevision = 1<<53 - 1

// AppendRecord appends the record of a node. Numbers that do not fit are replaced by the largest number that fits.
func AppendRecord(data []byte, n *Node) ([]byte, error) {
	if len(n.Name) > maxName || len(n.CPUs) > maxCPUs {
		return data, fmt.Errorf("node %.60q: %d bytes and %d CPUs; must be at most %d and %d", n.Name, len(n.Name), len(n.CPUs), maxName, maxCPUs)
	}
	data = append(data, byte(n.State), byte(len(n.Name)))
	data = append(data, n.Name...)
	data = binary.LittleEndian.AppendUint16(data, uint16(len(n.CPUs)))
	data = binary.LittleEndian.AppendUint16(data, uint16(min(max(n.Free, 0), math.MaxUint16)))
	for _, number := range []int64{int64(n.SharedTime), int64(n.Sensitive), n.Reported} {
		data = binary.LittleEndian.AppendUint32(data, uint32(min(max(number, 0), math.MaxUint32)))
	}
	for i, use := range n.CPUs {
		if i%4 == 0 {
			data = append(data, 0)
		}
		data[len(data)-1] |= byte(use&3) << (2 * (i % 4))
	}
	return data, nil
}

// Header returns the header of a packed map with a number of records.
func Header(revision uint64, records int) []byte {
	data := append(make([]byte, 0, headerSize), magic...)
	data = binary.LittleEndian.AppendUint32(data, version)
	data = binary.LittleEndian.AppendUint64(data, math.Float64bits(float64(revision)))
	return binary.LittleEndian.AppendUint32(data, uint32(records))
}

// errShort is the error for a packed map that ends within a record.
var errShort = errors.New("packed map: it ends within a record")

// Decode decodes a packed map. The page has the same code in JavaScript.
func Decode(data []byte) (revision uint64, nodes []Node, err error) {
	if len(data) < headerSize || string(data[:4]) != magic || binary.LittleEndian.Uint32(data[4:]) != version {
		return 0, nil, errors.New("packed map: must begin with CNDR and version 1")
	}
	number := math.Float64frombits(binary.LittleEndian.Uint64(data[8:]))
	if !(number >= 0 && number <= MaxRevision) || math.Signbit(number) || number != math.Trunc(number) {
		return 0, nil, fmt.Errorf("packed map: revision %v: must be an integer from 0 to %d", number, MaxRevision)
	}
	records := binary.LittleEndian.Uint32(data[16:])
	rest := data[headerSize:]
	for range records {
		var n Node
		if rest, err = n.decode(rest); err != nil {
			return 0, nil, err
		}
		nodes = append(nodes, n)
	}
	if len(rest) > 0 {
		return 0, nil, fmt.Errorf("packed map: %d bytes after the last record", len(rest))
	}
	return uint64(number), nodes, nil
}

// decode decodes the record at the beginning of data, and returns the remaining data.
func (n *Node) decode(data []byte) ([]byte, error) {
	if len(data) < recordSize || len(data) < recordSize+int(data[1]) {
		return nil, errShort
	}
	name := int(data[1])
	n.State, n.Name = State(data[0]), string(data[2:2+name])
	data = data[2+name:]
	cpus := int(binary.LittleEndian.Uint16(data))
	n.Free = int(binary.LittleEndian.Uint16(data[2:]))
	n.SharedTime = hybrid.Milli(binary.LittleEndian.Uint32(data[4:]))
	n.Sensitive = hybrid.Milli(binary.LittleEndian.Uint32(data[8:]))
	n.Reported = int64(binary.LittleEndian.Uint32(data[12:]))
	data = data[16:]
	if len(data) < (cpus+3)/4 {
		return nil, errShort
	}
	for i := range cpus {
		n.CPUs = append(n.CPUs, Use(data[i/4]>>(2*(i%4))&3))
	}
	return data[(cpus+3)/4:], nil
}
