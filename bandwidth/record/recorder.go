package record

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
)

// A Source is where a group's usage is read. After the group's end Read's error is fs.ErrNotExist.
type Source interface {
	Read() (cgroup.Usage, error)
	Close()
}

// ErrAllEnded ends a recording whose groups have all ended.
var ErrAllEnded = errors.New("all groups have ended")

// A Recorder reads groups at every interval and writes a recording.
type Recorder struct {
	w        *Writer
	interval time.Duration
	sources  []*source
	readings []Reading
	began    time.Time // of which it keeps the monotonic clock
	missed   uint64
	before   time.Duration // CPU time that this process had used when it began
	// Look, if set, is called once a second, such as to add groups that are new.
	Look func() error
}

type source struct {
	Source
	group    int
	encloses bool // it keeps no recording going
}

// flushEvery is how often what was read goes to the file.
const flushEvery = time.Second

// New begins a recording of this machine.
func New(out io.Writer, interval time.Duration) (*Recorder, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, err
	}
	began := time.Now()
	w, err := NewWriter(out, Header{Interval: interval, Start: began.UTC(), CPUs: onlineCPUs(), Model: procfs.CPUModel(), Kernel: unix.ByteSliceToString(name.Release[:])})
	return &Recorder{w: w, interval: interval, began: began, before: ownTime()}, err
}

// Add adds a group, which is closed with the recorder. What it has used so far does not count.
func (r *Recorder) Add(g Group, from Source) error {
	now, err := from.Read()
	if err != nil {
		return err
	}
	number, err := r.w.Group(g, now)
	if err == nil {
		r.sources = append(r.sources, &source{from, number, g.Encloses})
	}
	return err
}

// Run records for a duration (0: without end), until the context ends (which is no
// error) or all groups have ended: ErrAllEnded, unless Look may find new ones. Whatever ends it, the
// recording has its end.
func (r *Recorder) Run(ctx context.Context, duration time.Duration) error {
	defer r.close()
	err := r.record(ctx, duration)
	r.cost()
	return errors.Join(err, r.w.Close())
}

func (r *Recorder) record(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next, flush := r.interval, flushEvery
	if duration == 0 {
		duration = maxSpan
	}
	for next <= duration {
		timer.Reset(next - time.Since(r.began))
		select {
		case <-ctx.Done():
			return r.read() // what came since the last one
		case <-timer.C:
		}
		if err := r.read(); err != nil {
			return err
		}
		now := time.Since(r.began)
		if now >= flush {
			if err := r.flush(); err != nil {
				return err
			}
			flush = now - now%flushEvery + flushEvery
		}
		next += r.interval
		if late := (now - next) / r.interval; late > 0 {
			r.missed += uint64(late)
			next += late * r.interval
		}
	}
	return nil
}

// read reads all groups once.
func (r *Recorder) read() error {
	at := time.Since(r.began)
	r.readings = r.readings[:0]
	var ended []int
	left, going := r.sources[:0], 0
	for _, s := range r.sources {
		u, err := s.Read()
		if errors.Is(err, fs.ErrNotExist) {
			s.Close()
			ended = append(ended, s.group)
			continue
		}
		if err != nil {
			return err
		}
		left = append(left, s)
		if !s.encloses {
			going++
		}
		r.readings = append(r.readings, Reading{s.group, u})
	}
	clear(r.sources[len(left):])
	r.sources = left
	for _, group := range ended {
		r.w.Ended(group)
	}
	r.w.Tick(at, r.readings)
	if going == 0 && r.Look == nil {
		return ErrAllEnded
	}
	return nil
}

// flush writes what was read since the last one, and what that has cost.
func (r *Recorder) flush() error {
	if r.Look != nil {
		if err := r.Look(); err != nil {
			return err
		}
	}
	r.cost()
	return r.w.Flush()
}

func (r *Recorder) cost() { r.w.Cost(Cost{ownTime() - r.before, r.missed}) }

// ownTime is the CPU time that this process has used.
func ownTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // fails for no process that asks of itself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (r *Recorder) close() {
	for _, s := range r.sources {
		s.Close()
	}
	r.sources = nil
}

// onlineCPUs is how many CPUs the machine has; 0 where it does not say.
func onlineCPUs() int {
	text, _ := os.ReadFile("/sys/devices/system/cpu/online")
	set, _ := cpuset.Parse(strings.TrimSpace(string(text)))
	return set.Count()
}
