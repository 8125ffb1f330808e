package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
)

// liveName is the name of the file that a process locks while it keeps a view current. The file holds the counters of stat. No
// container mounts it.
const liveName = "live"

// HostStat is the path of the kernel's file that the live file with the CPU time replaces.
const HostStat = hostStat

// ErrRefreshed means that another process keeps a view current.
var ErrRefreshed = errors.New("another process keeps the view current; stop candor view refresh, or repeat the command")

// LiveParts selects the files of a view whose content changes while the container runs.
type LiveParts struct {
	Memory bool // meminfo and swaps
	Stat   bool // stat
}

// LiveFiles are the open files of a view whose content changes while the container runs. Until Close, no other process can open
// the LiveFiles of the view, and no process can take a lease on the files. The methods are safe for concurrent use.
type LiveFiles struct {
	updating sync.Mutex // held during Update
	mutex    sync.Mutex
	lock     *os.File     // the file with the name liveName
	memory   *MemoryFiles // nil: the view has no memory
	stat     *os.File     // nil: the view has no CPU time
	counters StatCounters
	cpus     cpuset.Set // CPUs in stat; empty: nothing has been written since the files were opened
	boot     int64      // the machine's btime
}

// OpenLive opens the files of a view for writing, and creates missing files and a missing directory. The error is ErrRefreshed if
// another process still has them open after 100 ms, and ErrLeased as for Open.
func OpenLive(dir string, parts LiveParts) (*LiveFiles, error) {
	d, err := makeDir(dir)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	for end := time.Now().Add(updateTurn); ; time.Sleep(time.Millisecond) { // another process can have the files open for a moment
		l, err := openLive(d, parts, unix.O_CREAT|unix.O_NONBLOCK)
		if !errors.Is(err, ErrRefreshed) || time.Now().After(end) {
			return l, err
		}
	}
}

// OpenLiveExisting is like OpenLive, but returns fs.ErrNotExist if a file is missing: it must not create a file in the directory
// of a view that another process removes.
func OpenLiveExisting(dir string, parts LiveParts) (*LiveFiles, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	return openLive(d, parts, unix.O_NONBLOCK)
}

func openLive(d *os.File, parts LiveParts, flags int) (l *LiveFiles, err error) {
	l = new(LiveFiles)
	defer func() {
		if err != nil {
			l.Close()
			l = nil
		}
	}()
	if l.lock, err = openFile(d, liveName, flags); err != nil {
		return l, fmt.Errorf("view: %w", err)
	}
	if err = lockLive(l.lock, ownerByte); err != nil {
		return l, fmt.Errorf("view %s: %w", d.Name(), err)
	}
	if parts.Memory {
		if l.memory, err = openMemory(d, flags); err != nil {
			return l, err
		}
	}
	if parts.Stat {
		if l.stat, err = openFile(d, statName, flags); err != nil {
			return l, fmt.Errorf("view: %w", err)
		}
		err = l.restoreStat()
	}
	return l, err
}

// Bytes of the file with the name liveName that processes lock.
const (
	ownerByte  = iota // by the process that has the LiveFiles open
	updateByte        // by a process that writes the memory
)

// lockLive locks a byte of a file. Processes of containers cannot open the file, and other users cannot write it.
func lockLive(f *os.File, b int64) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: b, Len: 1})
	if err == unix.EAGAIN || err == unix.EACCES {
		return ErrRefreshed
	}
	return err
}

// updateTurn bounds the time in which an update waits for an update of another process, which takes less than a millisecond. A
// stopped process must not delay the others.
const updateTurn = 100 * time.Millisecond

// lockUpdate waits up to updateTurn for the update of another process. unlock ends the turn of this process.
func lockUpdate(f *os.File) (unlock func()) {
	for end := time.Now().Add(updateTurn); lockLive(f, updateByte) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return func() {}
		}
	}
	return func() {
		_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Start: updateByte, Len: 1}) // fails for a closed file only
	}
}

// inTurn calls do, which measures a container and writes its files, in the turn of this process. After a long turn, for example of
// a process that was stopped in it, inTurn calls do once more: another process can have ceased to wait for its turn and written a
// newer measurement.
func inTurn(lock *os.File, do func() error) error {
	defer lockUpdate(lock)()
	start := time.Now()
	err := do()
	if err == nil && time.Since(start) >= updateTurn {
		err = do()
	}
	return err
}

// Update calls do, which measures the container and writes the files. At most one Update of a view runs at a time, in all
// processes: otherwise an older measurement could replace a newer one, and thus show a former limit again. If do takes as long as
// another process waits for it (100 ms), Update calls it twice.
func (l *LiveFiles) Update(do func() error) error {
	l.updating.Lock()
	defer l.updating.Unlock()
	return inTurn(l.lock, do)
}

// UpdateMemory measures and writes the memory of the view in dir, which another process can have open as LiveFiles. The error is
// fs.ErrNotExist if the view has no memory.
func UpdateMemory(dir string, measure func() (cgroup.Memory, MachineMemory, error)) error {
	d, err := openDir(dir)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	lock, err := openFile(d, liveName, unix.O_NONBLOCK)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer lock.Close()
	files, err := openMemory(d, unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer files.Close()
	return inTurn(lock, func() error {
		m, machine, err := measure()
		if err != nil {
			return err
		}
		return files.Write(m, machine)
	})
}

// IsRefreshed reports whether a process keeps the view in dir current. Only the owner of the view can ask.
func IsRefreshed(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, liveName), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: ownerByte, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

// WakeRefresher makes the process that refreshes the stat file of the view in dir do this soon, as a read of the container does.
// It does nothing for a view without stat.
func WakeRefresher(dir string) {
	if f, err := os.OpenFile(filepath.Join(dir, statName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
		f.Close()
	}
}

// RemoveLive removes the live files of the view in dir. Bind mounts of the files remain valid and keep their content. RemoveLive
// returns nil for a missing view.
func RemoveLive(dir string) error {
	return removeFiles(dir, meminfoName, swapsName, totalName, statName, liveName)
}

// ReadParts returns the live parts of the view in dir.
func ReadParts(dir string) LiveParts {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return LiveParts{Memory: has(meminfoName), Stat: has(statName)}
}

// ReadMemTotal returns the MemTotal in bytes that the view in dir shows. The error is fs.ErrNotExist if the view has no memory.
// ReadMemTotal does not read the file of the container, and so leads to no refresh.
func ReadMemTotal(dir string) (int64, error) {
	path := filepath.Join(dir, totalName)
	text, err := fileio.ReadNoLink(path, maxMeminfo)
	if err != nil {
		return 0, err
	}
	values, err := parseTotal(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return values[0] * 1024, nil
}

// readMeminfo returns the values of meminfoFields that the view in dir shows.
func readMeminfo(dir string) ([]int64, error) {
	path := filepath.Join(dir, meminfoName)
	text, err := fileio.ReadNoLink(path, maxMeminfo)
	if err != nil {
		return nil, leaseError(err)
	}
	values, err := parseMachine(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}

// ReadStatCPUs returns the CPUs in the stat file of the view in dir. The error is fs.ErrNotExist if the view has no CPU time.
func ReadStatCPUs(dir string) (cpuset.Set, error) {
	text, err := readStat(dir)
	if err != nil {
		return cpuset.Set{}, err
	}
	cpus, err := parseStat(text)
	if err != nil {
		return cpus, fmt.Errorf("%s: %w", filepath.Join(dir, statName), err)
	}
	return cpus, nil
}

func readStat(dir string) ([]byte, error) {
	text, err := fileio.ReadNoLink(filepath.Join(dir, statName), procfs.MaxStat)
	return text, leaseError(err)
}

// Parts returns the parts that are open.
func (l *LiveFiles) Parts() LiveParts { return LiveParts{l.memory != nil, l.stat != nil} }

// Files returns the files that a Refresher watches.
func (l *LiveFiles) Files() (files []*os.File) {
	if l.memory != nil {
		files = l.memory.Files()
	}
	if l.stat != nil {
		files = append(files, l.stat)
	}
	return files
}

// IsCurrent reports whether the open files are the view's present files. It returns false if the view was removed or recreated.
func (l *LiveFiles) IsCurrent() bool {
	for _, file := range append(l.Files(), l.lock) {
		info, err := file.Stat()
		now, lstatErr := os.Lstat(file.Name())
		if err != nil || lstatErr != nil || !os.SameFile(info, now) {
			return false
		}
	}
	return true
}

// WriteMemory writes the memory of the container, if the view has memory.
func (l *LiveFiles) WriteMemory(m cgroup.Memory, machine MachineMemory) error {
	if l.memory == nil {
		return nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.memory.Write(m, machine)
}

// WriteStat counts the CPU time of a sample and writes stat, if the view has CPU time. The sample must have CPUs.
func (l *LiveFiles) WriteStat(s StatSample) error {
	if l.stat == nil || s.CPUs.IsEmpty() {
		return nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.counters.Update(s)
	if s.CPUs != l.cpus { // CPUs that have left the container are in no line of stat
		if err := l.storeCounters(); err != nil {
			return err
		}
		l.cpus = s.CPUs
	}
	text, err := extendLine(l.stat, l.counters.AppendStat(nil, s.CPUs, l.boot))
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	return rewrite{l.stat, text}.put()
}

// extendLine pads the last line of a text with spaces to the length of a file, or the last line of the file to the length of the
// text. So a reader beside the write of the text does not find a part of its lines.
func extendLine(f *os.File, text []byte) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := int(info.Size())
	spaces := func(n int) []byte { return append(bytes.Repeat([]byte(" "), n), '\n') }
	switch more := len(text) - size; {
	case more < 0:
		text = append(bytes.TrimSuffix(text, []byte("\n")), spaces(-more)...)
	case more > 0 && size > 0:
		_, err = f.WriteAt(spaces(more), int64(size-1)) // replaces the final newline
	}
	return text, err
}

// storeCounters stores the counters for the next process that opens the files.
func (l *LiveFiles) storeCounters() error {
	text, err := json.Marshal(&l.counters)
	if err == nil {
		text, err = extendLine(l.lock, append(text, '\n'))
	}
	if err == nil {
		_, err = l.lock.WriteAt(text, 0)
	}
	if err != nil {
		return fmt.Errorf("view: store the counters of %s: %w", l.stat.Name(), err)
	}
	return nil
}

const maxStat = 1 << 20 // bytes of a view's stat, or of its stored counters

// restoreStat continues with the stored counters, and with the counters in stat: these are newer, but lack the CPUs that have
// left the container. A process that was killed can have left a part of the stored counters; then only those in stat count.
func (l *LiveFiles) restoreStat() error {
	machine, err := kernelfs.ReadLong(hostStat, procfs.MaxStat)
	if err == nil {
		l.boot, err = parseBootTime(machine)
	}
	if err != nil {
		return fmt.Errorf("view: %s: %w", hostStat, err)
	}
	stored, err := fileio.ReadOpen(l.lock, maxStat)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	if json.Unmarshal(stored, &l.counters) != nil || !l.counters.isValid() {
		l.counters = StatCounters{}
	}
	shown, err := fileio.ReadOpen(l.stat, maxStat)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	if l.counters.CPUs != nil && hasMachineCounters(shown) { // of a GiveBack that was canceled
		shown = nil
	}
	l.counters.Resume(shown)
	return nil
}

// parseBootTime returns the btime of the text of /proc/stat.
func parseBootTime(text []byte) (seconds int64, err error) {
	for line := range bytes.Lines(text) {
		if number, found := bytes.CutPrefix(line, []byte("btime ")); found {
			return strconv.ParseInt(strings.TrimSpace(string(number)), 10, 64)
		}
	}
	return 0, errors.New("no btime")
}

// WriteMachine writes the machine's present values, for a container that has the view still mounted when Candor is removed. If this
// process is killed between two writes, ShowsMachine reports it.
func (l *LiveFiles) WriteMachine() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var err error
	if l.stat != nil {
		err = l.writeMachineStat()
	}
	if l.memory != nil {
		err = errline.Join(err, l.memory.WriteMachine())
	}
	return err
}

func (l *LiveFiles) writeMachineStat() error {
	text, err := kernelfs.ReadLong(hostStat, procfs.MaxStat)
	if err == nil {
		text, err = extendLine(l.stat, text)
	}
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	if err := kernelfs.FaultOf(kernelfs.WriteAccess, l.stat.Name()); err != nil {
		return fmt.Errorf("view: %w", &fs.PathError{Op: "write", Path: l.stat.Name(), Err: err})
	}
	return rewrite{l.stat, text}.put()
}

// ShowsMachine reports whether the files of parts have the machine's values, as a complete WriteMachine leaves them. It does not
// wait for a lease, but returns ErrLeased.
func ShowsMachine(dir string, parts LiveParts) (bool, error) {
	if parts.Stat {
		is, err := statShowsMachine(dir)
		if err != nil || !is {
			return false, err
		}
	}
	if !parts.Memory {
		return true, nil
	}
	shown, err := readMeminfo(dir)
	if err != nil {
		return false, err
	}
	text, err := kernelfs.ReadLong(hostMeminfo, maxMeminfo)
	if err != nil {
		return false, fmt.Errorf("is /proc mounted? %w", err)
	}
	machine, err := parseMachine(text)
	// VmallocTotal is a constant of the kernel, and 0 for a container: the limit of a container can be the machine's memory.
	total, vmalloc := fieldIndex("MemTotal"), fieldIndex("VmallocTotal")
	return err == nil && shown[total] == machine[total] && shown[vmalloc] == machine[vmalloc], err
}

// statShowsMachine reports whether stat is a whole text of the kernel for the CPUs that are online now. In a container's text, the
// machine's counters are 0. A process that was killed in the write leaves the first lines of the new text, and the last ones of the
// old text.
func statShowsMachine(dir string) (bool, error) {
	text, err := readStat(dir)
	if err != nil {
		return false, err
	}
	shown, err := parseStat(text)
	if err != nil {
		return false, err
	}
	machine, err := kernelfs.ReadLong(hostStat, procfs.MaxStat)
	if err != nil {
		return false, fmt.Errorf("is /proc mounted? %w", err)
	}
	online, err := parseStat(machine)
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return err == nil && shown == online && hasMachineCounters(text) && bytes.HasPrefix(lines[len(lines)-1], []byte("softirq ")), err
}

// hasMachineCounters reports whether a text of /proc/stat has counters of the machine. Those of a container are 0.
func hasMachineCounters(text []byte) bool {
	for line := range bytes.Lines(text) {
		if number, found := bytes.CutPrefix(line, []byte("processes ")); found {
			return string(bytes.TrimSpace(number)) != "0"
		}
	}
	return false
}

// Close closes the files. It does not remove the view. It stores the counters of stat, if it can.
func (l *LiveFiles) Close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.stat != nil {
		if l.lock != nil && !l.cpus.IsEmpty() {
			_ = l.storeCounters() // the counters in stat are almost as good
		}
		l.stat.Close()
	}
	if l.memory != nil {
		l.memory.Close()
	}
	if l.lock != nil {
		l.lock.Close()
	}
}

// LiveBinds returns the bind mounts of parts of the view in dir.
func LiveBinds(dir string, parts LiveParts) (binds []Bind) {
	if parts.Memory {
		binds = MemoryBinds(dir)
	}
	if parts.Stat {
		binds = append(binds, Bind{filepath.Join(dir, statName), hostStat, "/proc"})
	}
	return binds
}
