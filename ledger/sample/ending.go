package sample

import (
	"errors"
	"time"

	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/ledger"
)

// An exitRecorder records the CPU time of watched processes when they end.
type exitRecorder interface {
	// watch watches a process. A process that ended before has no record.
	watch(pid int) error
	// read returns the record of a watched process. The record exists some milliseconds after the process was reaped.
	read(pid int) (r exitRecord, exists bool)
	// forget ends the watch of a process, and removes the record.
	forget(pid int)
	Close() error
}

// An exitRecord is the CPU time of an ended process.
type exitRecord struct {
	time  time.Duration // CPU time of all threads
	start uint64        // start of the process, in clock ticks since the boot (procfs.Stat.Start)
}

var errOtherPIDs = errors.New("cannot trace the end of processes: not in the initial PID namespace")

// clockTick is the unit of times in /proc/PID/stat.
const clockTick = 10 * time.Millisecond

// maxEnding is the time in which a record must appear after the end of a helper. It is long, because a kernel with lazy RCU
// callbacks frees processes up to 10 s late.
const maxEnding = 30 * time.Second

// watchExit watches for the end of a new helper. If it fails, the CPU time between the helper's last reading and its end is lost.
func (s *Source) watchExit(a *account) {
	if s.exits == nil || s.exits.watch(a.PID) != nil {
		return
	}
	stat, err := procfs.ReadStat(a.PID)
	if err != nil || a.hasEnded() { // then the stat can be that of another process
		s.exits.forget(a.PID)
		return
	}
	a.start, a.isWatched = stat.Start, true
}

// end removes a helper that has ended or executes another program. settle books the rest of the CPU time of an ended helper, if the
// recorder watches it.
func (s *Source) end(p *process, now time.Time) {
	a := s.helpers[p.PID]
	if a == nil {
		return
	}
	delete(s.helpers, p.PID)
	if !a.isWatched || !p.isEnded {
		s.release(a)
		return
	}
	if a.Container != "" {
		a.served = []string{a.Container} // the helper can have ended before its first reading
	}
	a.endedAt = now
	s.ending = append(s.ending, a)
}

// release ends the samples and the watch of a helper.
func (s *Source) release(a *account) {
	if a.sampled {
		s.sampler.detach(a.PID)
	}
	if a.isWatched {
		s.exits.forget(a.PID)
	}
}

// settle books the CPU time of ended helpers between their last reading and their end. A helper without a record waits for the
// next call. Until then, its containers stay in the book.
func (s *Source) settle(book *ledger.Book, c *cycle) error {
	var errs []error
	waiting := s.ending[:0]
	for _, a := range s.ending {
		for _, id := range a.served {
			c.serves[id] = true
			book.Open(id)
		}
		r, exists := s.exits.read(a.PID)
		switch {
		case exists && r.start == a.start:
			errs = append(errs, s.bookLast(a, book, r.time, c.now))
		case c.now.Sub(a.endedAt) < maxEnding:
			waiting = append(waiting, a)
			continue
		}
		s.release(a)
	}
	clear(s.ending[len(waiting):])
	s.ending = waiting
	return errors.Join(errs...)
}

// bookLast books the rest of the CPU time of an ended helper, given its total.
func (s *Source) bookLast(a *account, book *ledger.Book, total time.Duration, now time.Time) error {
	used := a.countable(max(total-a.time, 0))
	if used == 0 {
		return nil
	}
	return s.book(a, book, used, now)
}

// abandon releases an ended helper whose process ID another helper has now. The rest of its CPU time is lost.
func (s *Source) abandon(pid int) {
	for i, a := range s.ending {
		if a.PID == pid {
			s.release(a)
			s.ending = append(s.ending[:i], s.ending[i+1:]...)
			return
		}
	}
}
