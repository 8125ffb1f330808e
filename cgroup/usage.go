package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Usage holds the CPU use of a group and its nested groups since the creation of the group. The kernel's counters never decrease. So a
// lower counter at a later reading means that the group was removed and a new group has its name.
type Usage struct {
	CPU           time.Duration // CPU time
	Periods       uint64        // quota periods in which the group had work
	Throttled     uint64        // periods in which the group used up its quota
	ThrottledTime time.Duration // throttled time, summed over CPUs
	Bursts        uint64        // periods in which the group used more than its quota, from the accumulated burst
	BurstTime     time.Duration // CPU time used from the accumulated burst
}

// ReadUsage reads the use of a group. group is the name of one of Candor's groups, as for Tree.Group, or the path of a foreign group, as
// for Tree.EngineGroup ("/kubepods/pod1/web"). The error for a missing group is fs.ErrNotExist. Fields that this kernel does not count
// are 0.
func (t *Tree) ReadUsage(group string) (Usage, error) {
	r, err := t.OpenUsage(group)
	if err != nil {
		return Usage{}, err
	}
	defer r.Close()
	return r.Read()
}

// groupAt returns the group for a name or a path, as ReadUsage accepts them.
func (t *Tree) groupAt(group string) *Group {
	if strings.HasPrefix(group, "/") {
		return &Group{tree: t, name: group, path: group, err: CheckPath(group)}
	}
	return t.Group(group)
}

// A UsageReader reads the use of a group. It is for reads at a high rate, because it keeps the kernel's files open. A UsageReader is not
// safe for concurrent use.
type UsageReader struct {
	name string
	stat usageFile // cpu.stat
	acct usageFile // cpuacct.usage on v1; not open on v2, because cpu.stat of v2 contains the CPU time too
	buf  []byte
}

// A usageFile is a kernel file that stays open.
type usageFile struct {
	path string
	fd   int // -1: not open
}

// OpenUsage returns a reader for repeated reads of a group's use. It accepts the same names and returns the same errors as ReadUsage. If
// the group is removed, the reader returns errors, even if there is a new group of the same name.
func (t *Tree) OpenUsage(group string) (*UsageReader, error) {
	g := t.groupAt(group)
	if g.err != nil {
		return nil, g.err
	}
	return g.openUsage()
}

func (g *Group) openUsage() (*UsageReader, error) {
	t := g.tree
	r := &UsageReader{name: g.name, stat: usageFile{g.dir(t.cpu) + "/cpu.stat", -1}, acct: usageFile{"", -1}, buf: make([]byte, 1024)}
	err := r.stat.open()
	switch {
	case err != nil || t.cpu.v2:
	case t.acct == nil:
		err = errNoAcct
	default:
		r.acct.path = g.dir(t.acct) + "/cpuacct.usage"
		err = r.acct.open()
	}
	if err != nil {
		r.Close()
		return nil, r.wrap(err)
	}
	return r, nil
}

var errNoAcct = errors.New("no CPU usage: the controller cpuacct is not mounted")

// Close closes the files.
func (r *UsageReader) Close() {
	r.stat.close()
	r.acct.close()
}

// Read reads the present use. On v1 it reads two files, so the period counters are some microseconds older than the CPU time. The error
// after the removal of the group is fs.ErrNotExist.
func (r *UsageReader) Read() (Usage, error) {
	content, err := r.read(&r.stat)
	if err != nil {
		return Usage{}, err
	}
	u, err := parseUsage(content)
	if err != nil {
		return Usage{}, r.wrap(fmt.Errorf("%s: %w", r.stat.path, err))
	}
	if r.acct.path == "" {
		return u, nil
	}
	if content, err = r.read(&r.acct); err != nil {
		return Usage{}, err
	}
	n, err := strconv.ParseUint(string(content), 10, 64)
	if err != nil {
		return Usage{}, r.wrap(fmt.Errorf("%s: %w", r.acct.path, parseError(content)))
	}
	u.CPU = duration(n, time.Nanosecond)
	return u, nil
}

// read returns the content of a file without the final newline. The content is valid until the next read.
func (r *UsageReader) read(f *usageFile) ([]byte, error) {
	for {
		n, err := unix.Pread(f.fd, r.buf, 0)
		if err == unix.ENODEV { // the group was removed while the file was open
			err = unix.ENOENT
		}
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, r.wrap(&fs.PathError{Op: "read", Path: f.path, Err: err})
		case n == len(r.buf):
			r.buf = make([]byte, 2*len(r.buf))
		default:
			return bytes.TrimSuffix(r.buf[:n], []byte("\n")), nil
		}
	}
}

// wrap adds the group's name to an error. A missing file in any hierarchy means that the group is missing.
func (r *UsageReader) wrap(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrNoGroup, err)
	}
	return fmt.Errorf("cgroup %s: %w", r.name, err)
}

func (f *usageFile) open() (err error) {
	if f.fd, err = open(f.path, unix.O_RDONLY); err != nil {
		return &fs.PathError{Op: "open", Path: f.path, Err: err}
	}
	return nil
}

func (f *usageFile) close() {
	if f.fd >= 0 {
		unix.Close(f.fd)
		f.fd = -1
	}
}

// parseUsage parses the content of cpu.stat. v1 counts time in nanoseconds; v2 counts in microseconds, with other keys. parseUsage skips
// unknown keys, because new kernels add keys.
func parseUsage(content []byte) (u Usage, err error) {
	for line := range bytes.Lines(content) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		key, value, _ := bytes.Cut(line, []byte(" "))
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return Usage{}, parseError(line)
		}
		switch string(key) {
		case "nr_periods":
			u.Periods = n
		case "nr_throttled":
			u.Throttled = n
		case "nr_bursts":
			u.Bursts = n
		case "throttled_time":
			u.ThrottledTime = duration(n, time.Nanosecond)
		case "throttled_usec":
			u.ThrottledTime = duration(n, time.Microsecond)
		case "burst_time":
			u.BurstTime = duration(n, time.Nanosecond)
		case "burst_usec":
			u.BurstTime = duration(n, time.Microsecond)
		case "usage_usec":
			u.CPU = duration(n, time.Microsecond)
		}
	}
	return u, nil
}

// duration returns n units as a Duration, at most the largest Duration.
func duration(n uint64, unit time.Duration) time.Duration {
	if n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// A Stat holds the use of a group, in total and by CPU.
type Stat struct {
	Usage
	PerCPU []time.Duration // CPU time by CPU ID; nil if the kernel does not report it (v2)
}

// Stat returns the use of the group. Fields that this kernel does not count are 0.
func (g *Group) Stat() (Stat, error) {
	if g.err != nil {
		return Stat{}, g.err
	}
	r, err := g.openUsage()
	if err != nil {
		return Stat{}, err
	}
	defer r.Close()
	var s Stat
	if s.Usage, err = r.Read(); err == nil {
		s.PerCPU, err = g.PerCPU()
	}
	return s, err
}

// PerCPU reads the group's CPU time by CPU ID from v1's cpuacct controller. It returns nil if the kernel does not report it (v2).
func (g *Group) PerCPU() ([]time.Duration, error) {
	if g.err != nil || g.tree.cpu.v2 {
		return nil, g.err
	}
	if g.tree.acct == nil {
		return nil, g.wrap(errNoAcct)
	}
	dir := g.dir(g.tree.acct)
	const file = "cpuacct.usage_percpu"
	content, err := read(dir, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, g.wrap(err)
	}
	usage, err := parsePerCPU(content)
	if err != nil {
		return nil, g.wrap(badContent(dir, file, content))
	}
	return usage, nil
}

// parsePerCPU parses the content of cpuacct.usage_percpu, which has a number of nanoseconds for each possible CPU.
func parsePerCPU(content []byte) ([]time.Duration, error) {
	var usage []time.Duration
	for number := range bytes.FieldsSeq(content) {
		n, err := strconv.ParseUint(string(number), 10, 64)
		if err != nil {
			return nil, err
		}
		usage = append(usage, duration(n, time.Nanosecond))
	}
	return usage, nil
}

// ReadUserSystem reads the CPU time of a group in user mode and in the kernel. group is a name or a path, as for ReadUsage. On v1
// the values are whole ticks of 10 ms. The error for a missing group is ErrNoGroup.
func (t *Tree) ReadUserSystem(group string) (user, system time.Duration, err error) {
	g := t.groupAt(group)
	if g.err != nil {
		return 0, 0, g.err
	}
	dir, file, unit, suffix := g.dir(t.cpu), "cpu.stat", time.Microsecond, "_usec"
	if !t.cpu.v2 {
		if t.acct == nil {
			return 0, 0, g.wrap(errNoAcct)
		}
		dir, file, unit, suffix = g.dir(t.acct), "cpuacct.stat", 10*time.Millisecond, ""
	}
	content, err := read(dir, file)
	if err != nil {
		return 0, 0, g.wrap(err)
	}
	inUser, err := parseField(content, "user"+suffix)
	if err != nil {
		return 0, 0, g.wrap(badContent(dir, file, content))
	}
	inKernel, err := parseField(content, "system"+suffix)
	if err != nil {
		return 0, 0, g.wrap(badContent(dir, file, content))
	}
	return duration(inUser, unit), duration(inKernel, unit), nil
}

// parseField returns the number of a key in a file with lines such as "populated 1".
func parseField(content []byte, key string) (uint64, error) {
	for line := range bytes.Lines(content) {
		name, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if string(name) == key {
			return strconv.ParseUint(string(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("no line %q", key)
}
