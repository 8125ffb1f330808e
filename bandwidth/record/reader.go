package record

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/interference"
)

// Errors of a Reader. All other errors of Next are errors of the input.
var (
	// ErrFormat means that the input is not a recording, has another version, or is damaged.
	ErrFormat = errors.New("not a recording of version 1")
	// ErrCut means that a recording is still being written, or that its Recorder was killed. The ticks before the error
	// are valid.
	ErrCut = errors.New("the recording has no end: its recorder still runs or was killed")
)

// A Tick holds the use of the groups between the previous Tick and At. It stands for a reading, or for several consecutive
// readings without any use.
type Tick struct {
	At       time.Duration // time of the last of these readings, measured from the start of the recording
	Readings int           // number of readings
	Uses     []Use         // only groups with use; valid until the next call of Next
	Ended    []int         // numbers of the groups that have ended; valid until the next call of Next
}

// A Use holds the increments of a group's counters.
type Use struct {
	Group int // number of the group
	cgroup.Usage
}

// A Reader reads a recording. The methods whose names begin with read parse the next part of the present block.
type Reader struct {
	Header
	Groups []Group // groups read so far, by number
	Cost   Cost    // last cost read
	// Interference is the use of the groups' CPUs by other processes; nil: low, or not read yet.
	Interference *interference.Report

	in      *bufio.Reader
	block   []byte        // present block
	rest    []byte        // part of the block that is not read yet
	at      time.Duration // time of the last reading
	tick    Tick          // result of Next
	isEnded bool          // the end record was read
}

// NewReader reads the header of a recording and returns a Reader for the rest. The error is ErrFormat, ErrCut if the
// header is incomplete, or an error of in.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 1<<16)}
	if err := r.readMagic(); err != nil {
		return nil, err
	}
	if err := r.nextBlock(); err != nil {
		return nil, err
	}
	if r.rest[0] != kindHeader {
		return nil, r.damaged("no header")
	}
	r.rest = r.rest[1:]
	text, err := r.readText()
	if err == nil {
		if err := r.Header.decode(text); err != nil {
			return nil, r.damaged("header: %v", err)
		}
	}
	return r, err
}

// readMagic reads and checks the magic string.
func (r *Reader) readMagic() error {
	start := make([]byte, len(magic))
	n, err := io.ReadFull(r.in, start)
	switch {
	case err != nil && !isEnd(err):
		return err
	case string(start[:n]) != magic[:n]:
		return fmt.Errorf("%w: must start with %q", ErrFormat, magic)
	case err != nil:
		return ErrCut
	default:
		return nil
	}
}

func isEnd(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

func (r *Reader) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: damaged after %v: %s", ErrFormat, r.at, fmt.Sprintf(format, args...))
}

// Next reads the next Tick. At the end of a recording it returns io.EOF if the recording is complete, else ErrCut.
func (r *Reader) Next() (*Tick, error) {
	r.tick = Tick{Uses: r.tick.Uses[:0], Ended: r.tick.Ended[:0]}
	for {
		if len(r.rest) == 0 {
			if r.isEnded {
				return nil, io.EOF
			}
			if err := r.nextBlock(); err != nil {
				return nil, err
			}
		}
		kind := r.rest[0]
		r.rest = r.rest[1:]
		if r.isEnded {
			return nil, r.damaged("something behind the end")
		}
		isTick, err := r.readRecord(kind)
		if err != nil {
			return nil, err
		}
		if isTick {
			r.tick.At = r.at
			return &r.tick, nil
		}
	}
}

// readRecord reads the fields of a record, and reports whether the record completes a Tick.
func (r *Reader) readRecord(kind byte) (isTick bool, err error) {
	switch kind {
	case kindGroup:
		return false, r.readGroup()
	case kindTick:
		return true, r.readTick()
	case kindIdle:
		return true, r.readIdle()
	case kindEnded:
		group, err := r.readGroupNumber()
		r.tick.Ended = append(r.tick.Ended, group)
		return false, err
	case kindCost:
		return false, r.readCost()
	case kindForeign:
		return false, r.readInterference()
	case kindEnd:
		r.isEnded = true
		return false, nil
	default:
		return false, r.damaged("a record of kind %q", kind)
	}
}

// nextBlock reads the next block, which contains at least a byte of records.
func (r *Reader) nextBlock() error {
	head := make([]byte, blockHead)
	if _, err := io.ReadFull(r.in, head); isEnd(err) {
		return ErrCut
	} else if err != nil {
		return err
	}
	length := binary.LittleEndian.Uint32(head)
	if length == 0 || length > maxBlock {
		return r.damaged("a block of %d bytes", length)
	}
	if int(length) > cap(r.block) {
		r.block = make([]byte, length)
	}
	r.block = r.block[:length]
	if _, err := io.ReadFull(r.in, r.block); isEnd(err) {
		return ErrCut
	} else if err != nil {
		return err
	}
	if crc32.Checksum(r.block, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return r.damaged("wrong checksum")
	}
	r.rest = r.block
	return nil
}

func (r *Reader) readGroup() error {
	text, err := r.readText()
	if err != nil {
		return err
	}
	var g Group
	if err := g.decode(text); err != nil {
		return r.damaged("group: %v", err)
	}
	if len(r.Groups) == maxGroups {
		return r.damaged("more than %d groups", maxGroups)
	}
	r.Groups = append(r.Groups, g)
	return nil
}

func (r *Reader) readTick() error {
	late, size := binary.Varint(r.rest)
	if size <= 0 {
		return r.damaged("a number that ends nowhere")
	}
	r.rest = r.rest[size:]
	step := late + r.Interval.Microseconds()
	if step < 0 || step > int64(maxSpan/time.Microsecond) {
		return r.damaged("a step of %d µs", step)
	}
	if err := r.advance(time.Duration(step) * time.Microsecond); err != nil {
		return err
	}
	n, err := r.readNumber(uint64(len(r.Groups)))
	r.tick.Readings = 1
	for before := -1; n > 0 && err == nil; n-- {
		before, err = r.readUse(before)
	}
	return err
}

// readUse reads the use of a group. before is the number of the preceding group in the record: the numbers must ascend.
func (r *Reader) readUse(before int) (group int, err error) {
	if group, err = r.readGroupNumber(); err != nil {
		return 0, err
	}
	if group <= before || len(r.rest) == 0 {
		return 0, r.damaged("group %d after %d", group, before)
	}
	bits := r.rest[0]
	r.rest = r.rest[1:]
	var grown counts
	if bits >= 1<<len(grown) {
		return 0, r.damaged("counts %b", bits)
	}
	for i := range grown {
		if bits&(1<<i) == 0 {
			continue
		}
		if grown[i], err = r.readNumber(uint64(maxSpan / time.Microsecond)); err != nil {
			return 0, err
		}
	}
	r.tick.Uses = append(r.tick.Uses, Use{group, grown.usage()})
	return group, nil
}

func (r *Reader) readIdle() error {
	n, err := r.readNumber(uint64(maxSpan / r.Interval))
	r.tick.Readings = int(n)
	if err != nil {
		return err
	}
	return r.advance(time.Duration(n) * r.Interval)
}

func (r *Reader) advance(d time.Duration) error {
	if r.at+d > maxSpan {
		return r.damaged("a recording of more than %v", maxSpan)
	}
	r.at += d
	return nil
}

func (r *Reader) readCost() error {
	cpu, err := r.readNumber(uint64(maxSpan / time.Microsecond))
	if err != nil {
		return err
	}
	missed, err := r.readNumber(uint64(maxSpan))
	r.Cost = Cost{time.Duration(cpu) * time.Microsecond, missed}
	return err
}

func (r *Reader) readInterference() error {
	text, err := r.readText()
	if err != nil {
		return err
	}
	if r.Interference, err = interference.Parse(text); err != nil {
		return r.damaged("foreign processes: %v", err)
	}
	return nil
}

func (r *Reader) readGroupNumber() (int, error) {
	if len(r.Groups) == 0 {
		return 0, r.damaged("a group that was not named")
	}
	n, err := r.readNumber(uint64(len(r.Groups) - 1))
	return int(n), err
}

// readNumber reads a varint, which must be at most limit.
func (r *Reader) readNumber(limit uint64) (uint64, error) {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		return 0, r.damaged("a number that ends nowhere")
	}
	if n > limit {
		return 0, r.damaged("a number of %d, above %d", n, limit)
	}
	r.rest = r.rest[size:]
	return n, nil
}

func (r *Reader) readText() ([]byte, error) {
	n, err := r.readNumber(maxText)
	if err != nil {
		return nil, err
	}
	if uint64(len(r.rest)) < n {
		return nil, r.damaged("a text that ends nowhere")
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return text, nil
}
