package trace

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// A compact reads a compact file.
type compact struct {
	codec
	tail   compactTail
	file   string
	in     *bufio.Reader
	closer io.Closer
	unzip  *zstd.Decoder

	raw    []byte // the decoded block, followed by zeros for reads of a corrupt event beyond the end
	length int    // length of the block in raw, without the zeros
	at     int    // offset of the next event in raw
	left   uint32 // number of unread events in the block
	stored []byte
	shapes []shape
	events int64
	blocks int64
}

// openCompact opens a compact file, and reads its tail.
func openCompact(path string) (Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		var c *compact
		if c, err = newCompact(path, file, info.Size()); err == nil {
			c.closer = file
			return c, nil
		}
	}
	file.Close()
	return nil, err
}

// newCompact returns a reader of a compact file with a given size.
func newCompact(name string, in io.ReaderAt, size int64) (*compact, error) {
	c := &compact{file: name, closer: io.NopCloser(nil)}
	events, err := c.readTail(in, size)
	if err != nil {
		return nil, err
	}
	c.in = bufio.NewReaderSize(events, 1<<20)
	c.unzip, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock))
	return c, err
}

// readTail checks the magic and reads the tail. It returns the part of the file with the event blocks.
func (c *compact) readTail(in io.ReaderAt, size int64) (io.Reader, error) {
	magic := make([]byte, len(compactMagic))
	n, err := in.ReadAt(magic, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if string(magic[:n]) != compactMagic {
		return nil, c.corrupt("no compact trace of version 1", "it does not begin with %q", compactMagic)
	}
	trail := make([]byte, compactTrail)
	if size < int64(len(magic)+blockHead+compactTrail) {
		return nil, c.corrupt("truncated", "%d bytes", size)
	}
	if _, err := in.ReadAt(trail, size-int64(compactTrail)); err != nil {
		return nil, err
	}
	offset := binary.LittleEndian.Uint64(trail)
	room := uint64(size) - uint64(compactTrail+blockHead)
	if string(trail[8:]) != compactEnd || offset < uint64(len(magic)) || offset > room || room-offset > maxBlock {
		return nil, c.corrupt("truncated", "the end of the file is missing")
	}
	block := make([]byte, blockHead+room-offset)
	if _, err := in.ReadAt(block, int64(offset)); err != nil {
		return nil, err
	}
	text := block[blockHead:]
	h := parseBlockHeader(block)
	if h.kind != blockTail || h.sum != checksum(block[:blockHead-4], text) {
		return nil, c.corrupt("wrong checksum", "of the header at the file's end")
	}
	if err := json.Unmarshal(text, &c.tail); err != nil {
		return nil, c.corrupt("bad header", "%v", err)
	}
	if h := &c.tail.Header; min(h.Events, h.Machines, h.Slots) < 0 || max(h.Machines, h.Containers) > h.Events || h.Slots > h.Containers {
		return nil, c.corrupt("bad header", "its counts can't be")
	}
	return io.NewSectionReader(in, int64(len(magic)), int64(offset)-int64(len(magic))), nil
}

// corrupt returns an error for a corrupt file.
func (c *compact) corrupt(what, format string, args ...any) error {
	return &SyntaxError{c.file, 0, what, fmt.Sprintf(format, args...)}
}

// Header implements Reader.
func (c *compact) Header() Header { return c.tail.Header }

// Report implements Reader. It returns the parts that the import had omitted.
func (c *compact) Report() Report { return c.tail.Report }

// Close implements Reader.
func (c *compact) Close() error {
	c.unzip.Close()
	return c.closer.Close()
}

// nextBlock reads and decompresses the next block, or returns io.EOF.
func (c *compact) nextBlock() error {
	head := make([]byte, blockHead)
	if _, err := io.ReadFull(c.in, head); err == io.EOF {
		return c.checkCounts()
	} else if err != nil {
		return c.readError(err)
	}
	h := parseBlockHeader(head)
	if h.kind != blockEvents || h.stored > maxBlock || h.bytes > maxBlock {
		return c.corrupt("bad block", "block %d", c.blocks)
	}
	c.stored = append(c.stored[:0], make([]byte, h.stored)...)
	if _, err := io.ReadFull(c.in, c.stored); err != nil {
		return c.readError(err)
	}
	if h.sum != checksum(head[:blockHead-4], c.stored) {
		return c.corrupt("wrong checksum", "of block %d", c.blocks)
	}
	raw, err := c.unzip.DecodeAll(c.stored, c.raw[:0])
	if err != nil || len(raw) != int(h.bytes) {
		return c.corrupt("bad block", "block %d: %v, %d bytes", c.blocks, err, len(raw))
	}
	c.length = len(raw)
	c.raw = append(raw, make([]byte, maxRecord)...) //nolint:gocritic // raw uses the memory of c.raw
	c.at, c.left = 0, h.events
	c.blocks++
	return nil
}

func (c *compact) readError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		return c.corrupt("truncated", "within block %d", c.blocks)
	}
	return err
}

// checkCounts returns io.EOF if the counts in the header equal the counts of the events that were read, otherwise an error.
func (c *compact) checkCounts() error {
	if h := c.tail.Header; c.events != h.Events || int64(len(c.live)) != h.Slots || int64(c.machines) != h.Machines {
		return c.corrupt("wrong counts", "%d events of %d, %d slots of %d, %d machines of %d",
			c.events, h.Events, len(c.live), h.Slots, c.machines, h.Machines)
	}
	return io.EOF
}
