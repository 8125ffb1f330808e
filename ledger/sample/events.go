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

// A sampler counts the work of processes in samples of their CPU time.
type sampler interface {
	method() ledger.Method
	attach(pid int) error
	detach(pid int)
	// watch counts the reads and writes of these open files of a process, and no longer those of its other files.
	watch(pid int, open *openFiles) error
	read(pid int) (counts, error)
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

// threadEvents are the perf events of processes, one for each thread. Threads that start later inherit the event of the
// thread that starts them.
type threadEvents struct {
	program int                 // descriptor of the BPF program that each sample runs
	events  map[int]map[int]int // descriptors by process and thread
}

// attributes are the attributes of the events (perf_event_open(2)). The clock is that of the thread: it stands still while the
// thread does not run.
func attributes() *unix.PerfEventAttr {
	const inheritThread = 1 << 35 // threads inherit the event, child processes do not (Linux 5.13)
	return &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(period.Nanoseconds()),
		Bits: unix.PerfBitInherit | inheritThread, Size: unix.PERF_ATTR_SIZE_VER7,
	}
}

// attach opens an event for each thread of a process without an event. It can be called again.
func (t *threadEvents) attach(pid int) error {
	if t.events == nil {
		t.events = map[int]map[int]int{}
	}
	if t.events[pid] != nil {
		return nil
	}
	names, err := os.ReadDir(procDir(pid) + "/task")
	if err != nil {
		return err
	}
	t.events[pid] = map[int]int{}
	for _, name := range names {
		tid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		fd, err := t.open(tid)
		if errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			t.detach(pid)
			return fmt.Errorf("cannot sample process %d: %w", pid, err)
		}
		t.events[pid][tid] = fd
	}
	return nil
}

func (t *threadEvents) open(tid int) (fd int, err error) {
	fd, err = unix.PerfEventOpen(attributes(), tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, t.program); err == nil {
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

func (t *threadEvents) detach(pid int) {
	for _, fd := range t.events[pid] {
		unix.Close(fd)
	}
	delete(t.events, pid)
}

func (t *threadEvents) close() {
	for pid := range t.events {
		t.detach(pid)
	}
}
