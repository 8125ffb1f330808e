package sample

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/ledger"
)

// A sampler takes samples of the CPU time of processes, and counts the samples by the work at that moment: user mode, system calls, or
// reads and writes of a file.
type sampler interface {
	method() ledger.Method
	// attach samples the threads of a process. The caller repeats the call, because threads start and end.
	attach(pid int) error
	detach(pid int)
	// watch counts the reads and writes of the given open files of a process. It ends the count for all other files of the process.
	watch(pid int, open *openFiles) error
	// read returns the samples of a process. Calls with the same value of the parameter at can share a reading of the kernel's
	// counters.
	read(pid int, at time.Time) (counts, error)
	Close() error
}

// counts are the samples of a process since its attachment. The counts of a file begin when the file is first watched.
type counts struct {
	user, calls uint64
	rest        ioCount
	files       map[fileKey]ioCount
}

type ioCount struct{ read, write uint64 }

// period is the CPU time between two samples of a thread.
const period = time.Millisecond

// attributes returns the attributes of the events (perf_event_open(2)). An event counts the CPU time of its thread.
// Threads do not inherit an event: otherwise a thread that starts during the attachment could have no event, or two
// events.
func attributes() *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(period.Nanoseconds()),
		Size: unix.PERF_ATTR_SIZE_VER7,
	}
}

// threads has the perf event of each thread of a process, by thread ID.
type threads[T any] map[int]T

// update opens an event for each new thread of a process, and closes the events of ended threads.
func (t threads[T]) update(pid int, open func(tid int) (T, error), end func(T)) error {
	names, err := os.ReadDir(procDir(pid) + "/task")
	if err != nil {
		return err
	}
	alive := make(map[int]bool, len(names))
	for _, name := range names {
		tid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		alive[tid] = true
		if _, hasEvent := t[tid]; hasEvent {
			continue
		}
		event, err := open(tid)
		if errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return fmt.Errorf("cannot sample process %d: %w", pid, err)
		}
		t[tid] = event
	}
	for tid, event := range t {
		if !alive[tid] {
			end(event)
			delete(t, tid)
		}
	}
	return nil
}

// close ends all events.
func (t threads[T]) close(end func(T)) {
	for tid, event := range t {
		end(event)
		delete(t, tid)
	}
}
