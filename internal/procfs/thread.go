package procfs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
)

// A Thread is a thread of a process (/proc/PID/task/TID/stat, proc_pid_stat(5)).
type Thread struct {
	ID   int
	Name string        // at most 15 bytes, untrusted
	Time time.Duration // CPU time, in steps of 10 ms
	CPU  int           // CPU on which the thread runs or last ran
}

// ignoreEOF returns nil for io.EOF, with which a directory ends, and otherwise err.
func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// Threads reads at most limit threads of a process. It omits threads that end during the read. The error is fs.ErrNotExist or
// ESRCH if the process itself has ended.
func Threads(pid, limit int) ([]Thread, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	ids, err := folder.Readdirnames(limit)
	if err != nil {
		return nil, err
	}
	threads := make([]Thread, 0, len(ids))
	for _, id := range ids {
		file := dir + "/" + id + "/stat"
		text, err := kernelfs.Read(file)
		if err != nil {
			continue
		}
		thread, err := parseThread(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		threads = append(threads, thread)
	}
	return threads, nil
}

// ThreadAffinity returns the union of the affinities of a process's threads. It reads at most limit threads, the oldest first,
// and omits threads that end during the read. The error is fs.ErrNotExist or ESRCH if the process itself has ended.
func ThreadAffinity(pid, limit int) (cpus cpuset.Set, err error) {
	folder, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return cpus, err
	}
	defer folder.Close()
	ids, err := folder.Readdirnames(limit)
	if err = ignoreEOF(err); err != nil {
		return cpus, err
	}
	for _, id := range ids {
		if tid, err := strconv.Atoi(id); err == nil {
			own, _ := Affinity(tid) // empty for a thread that has ended
			cpus = cpus.Union(own)
		}
	}
	return cpus, nil
}

func parseThread(text []byte) (t Thread, err error) {
	// The name is in parentheses and may hold anything, even ")".
	id, rest, opened := bytes.Cut(text, []byte(" ("))
	end := bytes.LastIndexByte(rest, ')')
	if !opened || end < 0 {
		return t, fmt.Errorf("must have a name in parentheses, has %.60q", text)
	}
	const user, system, processor = 11, 12, 36 // fields 14, 15 and 39
	fields := bytes.Fields(rest[end+1:])
	if len(fields) <= processor {
		return t, fmt.Errorf("must have 52 fields, has %.60q", text)
	}
	t.Name = string(rest[:end])
	if t.ID, err = strconv.Atoi(string(id)); err != nil {
		return Thread{}, err
	}
	if t.CPU, err = strconv.Atoi(string(fields[processor])); err != nil {
		return Thread{}, err
	}
	for _, i := range []int{user, system} {
		spent, err := ticks(string(fields[i]))
		if err != nil {
			return Thread{}, err
		}
		t.Time += spent
	}
	return t, nil
}
