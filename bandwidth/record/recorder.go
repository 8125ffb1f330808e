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
	"github.com/candor-project/candor/internal/interference"
	"github.com/candor-project/candor/internal/procfs"
)

// A Source reads the usage of a group. After the end of the group, Read returns fs.ErrNotExist.
type Source interface {
	Read() (cgroup.Usage, error)
	Close()
}

// ErrAllEnded means that a recording has ended because all its groups have ended.
var ErrAllEnded = errors.New("all groups have ended")

// A Recorder reads groups at every interval and writes a recording.
type Recorder struct {
	w          *Writer
	interval   time.Duration
	sources    []*source
	readings   []Reading
	start      time.Time // contains a reading of the monotonic clock
	missed     uint64
	initialCPU time.Duration // this process's CPU time at the start
	// OnFlush, if not nil, is called each second before the Recorder writes a block, for example to add new groups.
	OnFlush func() error
	// OnEnd, if not nil, is called after the last reading. It returns the use of the groups' CPUs by other processes, or nil if it was low
	// or is unknown.
	OnEnd func() *interference.Report
}

// A source is a Source with its group.
type source struct {
	Source
	group      int  // number of the group
	isAncestor bool // Group.Encloses: the recording does not wait for the end of the group
}

// flushEvery is the time between two blocks.
const flushEvery = time.Second

// New starts a recording of this machine and writes its header. It records no groups before Add.
func New(out io.Writer, interval time.Duration) (*Recorder, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, err
	}
	start, online := time.Now(), onlineCPUs()
	w, err := NewWriter(out, Header{Interval: interval, Start: start.UTC(), CPUs: online.Count(), Model: procfs.CPUModel(), Kernel: unix.ByteSliceToString(name.Release[:])})
	return &Recorder{w: w, interval: interval, start: start, initialCPU: processCPU()}, err
}

// Add adds a group to the recording. The recording contains only the use after Add. The Recorder closes s, unless Add
// returns an error.
func (r *Recorder) Add(g Group, s Source) error {
	now, err := s.Read()
	if err != nil {
		return err
	}
	number, err := r.w.Group(g, now)
	if err == nil {
		r.sources = append(r.sources, &source{s, number, g.Encloses})
	}
	return err
}

// Run records for a duration (0: no time limit), or until the context is done. If OnFlush is nil, Run also ends when all
// groups have ended, and returns ErrAllEnded. The end of the context is not an error. Run completes the recording in any
// case, so that it has an end. If this fails, Run does not return ErrAllEnded, because the recording is incomplete.
func (r *Recorder) Run(ctx context.Context, duration time.Duration) error {
	defer r.close()
	err := r.record(ctx, duration)
	r.writeCost()
	failed := errors.Join(r.writeInterference(), r.w.Close())
	if failed != nil && errors.Is(err, ErrAllEnded) {
		err = nil
	}
	return errors.Join(err, failed)
}

func (r *Recorder) writeInterference() error {
	if r.OnEnd == nil {
		return nil
	}
	found := r.OnEnd()
	if found == nil {
		return nil
	}
	return r.w.Interference(found)
}

func (r *Recorder) record(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next, flush := r.interval, flushEvery
	if duration == 0 {
		duration = maxSpan
	}
	for next <= duration {
		timer.Reset(next - time.Since(r.start))
		select {
		case <-ctx.Done():
			return r.read() // record the use since the last reading
		case <-timer.C:
		}
		if err := r.read(); err != nil {
			return err
		}
		now := time.Since(r.start)
		if now >= flush {
			if err := r.flush(); err != nil {
				return err
			}
			flush = now - now%flushEvery + flushEvery
		}
		next += r.interval
		if missed := (now - next) / r.interval; missed > 0 {
			r.missed += uint64(missed)
			next += missed * r.interval
		}
	}
	return nil
}

// read makes a reading of all groups.
func (r *Recorder) read() error {
	at := time.Since(r.start)
	r.readings = r.readings[:0]
	var ended []int
	remaining, running := r.sources[:0], 0
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
		remaining = append(remaining, s)
		if !s.isAncestor {
			running++
		}
		r.readings = append(r.readings, Reading{s.group, u})
	}
	clear(r.sources[len(remaining):])
	r.sources = remaining
	for _, group := range ended {
		r.w.Ended(group)
	}
	r.w.Tick(at, r.readings)
	if running == 0 && r.OnFlush == nil {
		return ErrAllEnded
	}
	return nil
}

// flush writes a block with the cost of the recording so far, and with the readings since the last flush.
func (r *Recorder) flush() error {
	if r.OnFlush != nil {
		if err := r.OnFlush(); err != nil {
			return err
		}
	}
	r.writeCost()
	return r.w.Flush()
}

func (r *Recorder) writeCost() { r.w.Cost(Cost{processCPU() - r.initialCPU, r.missed}) }

// processCPU returns the CPU time of this process.
func processCPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail for the calling process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (r *Recorder) close() {
	for _, s := range r.sources {
		s.Close()
	}
	r.sources = nil
}

// onlineCPUs returns the machine's online CPUs; empty if unknown.
func onlineCPUs() cpuset.Set {
	text, _ := os.ReadFile("/sys/devices/system/cpu/online")
	set, _ := cpuset.Parse(strings.TrimSpace(string(text)))
	return set
}
