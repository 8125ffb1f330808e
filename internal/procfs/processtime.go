package procfs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A ProcessTime is the CPU time of a process.
type ProcessTime struct {
	Comm  string        // name of the program, at most 15 bytes, untrusted
	Start uint64        // clock ticks since boot; a later process with the same PID has another start
	Time  time.Duration // CPU time of all its threads, living and ended, in steps of 10 ms
}

// ReadProcessTimes reads the CPU times of all processes, by PID. It omits processes that end during the read, and
// processes that /proc hides from this user (mount option hidepid).
func ReadProcessTimes() (map[int]ProcessTime, error) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	return processTimes(names, ReadStat)
}

// processTimes reads the CPU times of the processes among the names in /proc.
func processTimes(names []string, read func(pid int) (Stat, error)) (map[int]ProcessTime, error) {
	times := make(map[int]ProcessTime, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		s, err := read(pid)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrPermission):
			continue
		case err != nil:
			return nil, err
		}
		times[pid] = ProcessTime{s.Comm, s.Start, s.Time}
	}
	return times, nil
}
