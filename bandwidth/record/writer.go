package record

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/interference"
)

// A Writer writes a recording. It collects records in a block, and writes the block to the output in Flush.
type Writer struct {
	out      io.Writer
	interval int64    // interval between readings in µs
	buf      []byte   // present block, with space for its head
	last     []counts // counters at the last reading, by group
	at       int64    // time in µs that a Reader computes from the records so far
	idle     uint64   // number of readings without use that are not in a record yet
	failed   error    // error of flushEarly
}

// ErrFull means that a recording cannot contain more groups. The recording remains valid.
var ErrFull = errors.New("the recording is full")

// NewWriter starts a recording and writes its header.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	if err := CheckInterval(h.Interval); err != nil {
		return nil, err
	}
	text, err := h.encode()
	if err != nil {
		return nil, err
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("a header of %d bytes: must be at most %d", len(text), maxText)
	}
	if _, err := io.WriteString(out, magic); err != nil {
		return nil, err
	}
	w := &Writer{out: out, interval: h.Interval.Microseconds(), buf: make([]byte, blockHead)}
	w.writeText(kindHeader, text)
	return w, w.Flush()
}

// Group adds a group to the recording and returns the number of the group. The counters in now are the start: the
// recording contains only their later increments. The error is ErrFull if there are too many groups.
func (w *Writer) Group(g Group, now cgroup.Usage) (number int, err error) {
	text, err := g.encode()
	switch {
	case err != nil:
		return 0, err
	case len(w.last) == maxGroups:
		return 0, fmt.Errorf("%w: it has %d groups", ErrFull, maxGroups)
	case len(text) > maxText:
		return 0, fmt.Errorf("group %.60q…: its name has more than %d bytes", g.Name, maxText)
	}
	w.writeIdle()
	w.writeText(kindGroup, text)
	w.last = append(w.last, countsOf(now))
	w.flushEarly()
	return len(w.last) - 1, nil
}

// flushEarly writes the present block if it exceeds half of the maximum size. A reading of the maximum number of groups
// needs less than half of this size, so no block exceeds the maximum.
func (w *Writer) flushEarly() {
	if len(w.buf) > maxBlock/2 && w.failed == nil {
		w.failed = w.Flush()
	}
}

// A Reading holds the kernel's counters of a group.
type Reading struct {
	Group int // number of the group
	cgroup.Usage
}

// Tick records readings that were taken at the time at, measured from the start of the recording. The readings must be in ascending order
// of the groups' numbers.
func (w *Writer) Tick(at time.Duration, readings []Reading) {
	changed := 0
	for i := range readings {
		if countsOf(readings[i].Usage) != w.last[readings[i].Group] {
			changed++
		}
	}
	now := at.Microseconds()
	late := now - w.at - (int64(w.idle)+1)*w.interval
	if changed == 0 && late < w.interval && late > -w.interval {
		w.idle++ // a small error of the time does not matter: the next T record corrects it
		return
	}
	w.writeIdle()
	now = max(now, w.at)
	w.buf = append(w.buf, kindTick)
	w.buf = binary.AppendVarint(w.buf, now-w.at-w.interval)
	w.writeNumber(uint64(changed))
	w.at = now
	for i := range readings {
		w.writeUse(&readings[i])
	}
	w.flushEarly()
}

// writeUse writes the increments of a group's counters since the last reading, if there are any. It omits counters that
// have decreased: they belong to a new group of the same name.
func (w *Writer) writeUse(r *Reading) {
	now, last := countsOf(r.Usage), &w.last[r.Group]
	if now == *last {
		return
	}
	var grown counts
	var bits byte
	for i := range now {
		if now[i] > last[i] {
			grown[i] = now[i] - last[i]
			bits |= 1 << i
		}
	}
	*last = now
	w.writeNumber(uint64(r.Group))
	w.buf = append(w.buf, bits)
	for i := range grown {
		if bits&(1<<i) != 0 {
			w.writeNumber(grown[i])
		}
	}
}

// Ended records the end of a group.
func (w *Writer) Ended(group int) {
	w.writeIdle()
	w.buf = append(w.buf, kindEnded)
	w.writeNumber(uint64(group))
}

// Cost records the cost of recording so far.
func (w *Writer) Cost(c Cost) {
	w.writeIdle()
	w.buf = append(w.buf, kindCost)
	w.writeNumber(uint64(max(c.CPU, 0) / time.Microsecond))
	w.writeNumber(c.Missed)
}

// Interference records the use of the groups' CPUs by other processes. A Reader that does not know this kind of record
// refuses the recording.
func (w *Writer) Interference(r *interference.Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w.writeIdle()
	w.writeText(kindForeign, text)
	return nil
}

// Flush writes the present block to the output.
func (w *Writer) Flush() error {
	if w.failed != nil {
		return w.failed
	}
	w.writeIdle()
	body := w.buf[blockHead:]
	if len(body) == 0 {
		return nil
	}
	binary.LittleEndian.PutUint32(w.buf, uint32(len(body)))
	binary.LittleEndian.PutUint32(w.buf[4:], crc32.Checksum(body, castagnoli))
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:blockHead]
	return err
}

// Close writes the end of the recording. It does not close the output.
func (w *Writer) Close() error {
	w.writeIdle()
	w.buf = append(w.buf, kindEnd)
	return w.Flush()
}

func (w *Writer) writeIdle() {
	if w.idle == 0 {
		return
	}
	w.buf = append(w.buf, kindIdle)
	w.writeNumber(w.idle)
	w.at += int64(w.idle) * w.interval
	w.idle = 0
}

func (w *Writer) writeNumber(n uint64) { w.buf = binary.AppendUvarint(w.buf, n) }

func (w *Writer) writeText(kind byte, writeText []byte) {
	w.buf = append(w.buf, kind)
	w.writeNumber(uint64(len(writeText)))
	w.buf = append(w.buf, writeText...)
}
