package trace

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/klauspost/compress/zstd"
)

// Import writes all events of a trace to a compact file. It creates the file atomically, only after all events were written. It returns the
// header of the file with all counts. If ctx is canceled, Import returns the context's error.
func Import(ctx context.Context, path string, r Reader) (Header, error) {
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644))
	if err != nil {
		return Header{}, err
	}
	defer file.Cleanup()
	w, err := newCompactWriter(file)
	if err != nil {
		return Header{}, err
	}
	var e Event
	for err = r.Next(&e); err == nil; err = r.Next(&e) {
		if err := w.write(&e); err != nil {
			return Header{}, fmt.Errorf("%s: %w", path, err)
		}
		if w.inBlock == 0 && ctx.Err() != nil { // checked once per block
			return Header{}, fmt.Errorf("%s: not written: %w", path, context.Cause(ctx))
		}
	}
	if err != io.EOF {
		return Header{}, err
	}
	header, err := w.finish(r.Header(), r.Report())
	if err != nil {
		return Header{}, err
	}
	return header, file.CloseAtomicallyReplace()
}

// A compactWriter writes events to a compact file.
type compactWriter struct {
	codec
	out     io.Writer
	zip     *zstd.Encoder
	offset  uint64
	raw     []byte // the events of the present block
	stored  []byte
	inBlock uint32
	shapes  map[shape]uint32
	events  int64
	submits int64
	classes int // 1 + the highest class of a container
}

func newCompactWriter(out io.Writer) (*compactWriter, error) {
	w := &compactWriter{out: out, shapes: map[shape]uint32{}}
	return w, w.put([]byte(compactMagic))
}

// put writes bytes, and adds their number to offset.
func (w *compactWriter) put(b []byte) error {
	w.offset += uint64(len(b))
	_, err := w.out.Write(b)
	return err
}

// write adds an event to the present block, and writes the block if it is full.
func (w *compactWriter) write(e *Event) error {
	if e.Time < w.time {
		return fmt.Errorf("event %d: time %d after %d", w.events, e.Time, w.time)
	}
	since := uint64(e.Time - w.time)
	w.time = e.Time
	var err error
	switch e.Kind {
	case Submit:
		err = w.writeSubmit(e, since)
	case End:
		err = w.writeEnd(e, since)
	default:
		err = w.writeMachine(e, since)
	}
	if err != nil {
		return fmt.Errorf("event %d: %w", w.events, err)
	}
	w.events++
	w.inBlock++
	if len(w.raw) >= blockBytes {
		return w.flush()
	}
	return nil
}

// tag writes the first part of an event: the tag and the time since the previous event.
func (w *compactWriter) tag(e *Event, bits byte, since uint64) {
	w.raw = append(w.raw, byte(e.Kind)|bits)
	w.uvarint(since)
}

func (w *compactWriter) uvarint(u uint64) { w.raw = binary.AppendUvarint(w.raw, u) }

func (w *compactWriter) writeSubmit(e *Event, since uint64) error {
	s := shape{e.CPU, e.Memory, e.Class, e.Priority, e.Flags}
	number, known := w.shapes[s]
	bits := byte(0)
	if !known {
		bits = tagNewShape
		number = uint32(len(w.shapes))
	}
	w.tag(e, bits, since)
	w.uvarint(zigzag(int64(e.Job - w.job)))
	w.uvarint(zigzag(int64(e.Task) - int64(w.task)))
	w.uvarint(uint64(number))
	if !known {
		w.uvarint(uint64(e.CPU))
		w.uvarint(uint64(e.Memory))
		w.raw = append(w.raw, e.Class, e.Priority, byte(e.Flags))
		if len(w.shapes) < maxShapes {
			w.shapes[s] = number
		}
	}
	w.submits++
	w.classes = max(w.classes, int(e.Class)+1)
	if slot := w.submit(e.Job, e.Task); slot != e.Container {
		return fmt.Errorf("container in slot %d: must be in slot %d, the slot that was freed last", e.Container, slot)
	}
	return nil
}

func (w *compactWriter) writeEnd(e *Event, since uint64) error {
	w.tag(e, byte(e.Reason)<<tagReason, since)
	w.uvarint(uint64(e.Container))
	if _, ok := w.end(uint64(e.Container)); !ok {
		return fmt.Errorf("end of slot %d, where nothing runs", e.Container)
	}
	return nil
}

func (w *compactWriter) writeMachine(e *Event, since uint64) error {
	bits := byte(0)
	if e.Flags&AtStart != 0 {
		bits = tagAtStart
	}
	w.tag(e, bits, since)
	w.uvarint(uint64(e.Machine))
	if e.Kind != MachineRemove {
		w.uvarint(uint64(e.CPU))
		w.uvarint(uint64(e.Memory))
	}
	if e.Machine > w.machines || e.Machine == w.machines && e.Kind != MachineAdd {
		return fmt.Errorf("machine %d, but only %d were added", e.Machine, w.machines)
	}
	w.machines = max(w.machines, e.Machine+1)
	return nil
}

// flush compresses and writes the present block.
func (w *compactWriter) flush() error {
	if w.inBlock == 0 {
		return nil
	}
	if w.zip == nil {
		var err error
		w.zip, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false)) // each block has its own checksum
		if err != nil {
			return err
		}
	}
	w.stored = w.zip.EncodeAll(w.raw, w.stored[:0])
	h := blockHeader{kind: blockEvents, bytes: uint32(len(w.raw)), events: w.inBlock}
	w.raw, w.inBlock = w.raw[:0], 0
	return w.block(h, w.stored)
}

func (w *compactWriter) block(h blockHeader, stored []byte) error {
	if err := w.put(h.append(nil, stored)); err != nil {
		return err
	}
	return w.put(stored)
}

// finish writes the last events and the tail.
func (w *compactWriter) finish(h Header, r Report) (Header, error) {
	if err := w.flush(); err != nil {
		return h, err
	}
	if w.classes > len(h.Classes) {
		return h, fmt.Errorf("a container of class %d, the header has %d classes", w.classes-1, len(h.Classes))
	}
	h.Machines, h.Containers, h.Slots = int64(w.machines), w.submits, int64(len(w.live))
	h.Events, h.Span = w.events, w.time
	text, err := json.Marshal(compactTail{h, r})
	if err != nil {
		return h, err
	}
	at := w.offset
	if err := w.block(blockHeader{kind: blockTail, bytes: uint32(len(text))}, text); err != nil {
		return h, err
	}
	end := binary.LittleEndian.AppendUint64(nil, at)
	return h, w.put(append(end, compactEnd...))
}
