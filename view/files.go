package view

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/kernelfs"
)

const (
	maxCPUInfo  = 64 << 20 // maximum bytes of /proc/cpuinfo; 8,192 CPUs with 2 kB each need 16 MiB
	hostOnline  = "/sys/devices/system/cpu/online"
	hostCPUInfo = "/proc/cpuinfo"
)

// Names of the files of a view in the view's directory.
const (
	onlineName  = "online"
	cpuinfoName = "cpuinfo"
	statName    = "stat"
)

// ErrLeased means that a file of the view cannot be opened without waiting, because a process in the container has a
// lease on the file (fcntl F_SETLEASE). The kernel breaks the lease after /proc/sys/fs/lease-break-time.
var ErrLeased = errors.New("a process in the container holds a lease on the file")

// Write creates or rewrites the view of the given CPUs: dir/online and dir/cpuinfo, readable by all users. The stanzas of cpuinfo come
// from this machine's /proc/cpuinfo. Write creates the directory if it is missing, but not its parent.
//
// Write rewrites existing files in place (see "Updates" in the package comment). It first extends both files, so that a full disk does not
// leave a part of the new view.
//
// The caller must own the directory and the files. Write refuses symbolic links and special files. If a process in the container has a
// lease on a file, Write does not wait, but returns ErrLeased.
func Write(dir string, cpus cpuset.Set) error {
	if cpus.IsEmpty() {
		return noCPUsError(dir)
	}
	f, err := Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Write(cpus)
}

// Files are the open files of a view. While they are open for writing, no process can take a lease on them.
type Files struct {
	dir             string
	online, cpuinfo *os.File
}

// Open opens the files of a view for writing, and creates missing files. It does not wait for a lease, but returns ErrLeased.
func Open(dir string) (*Files, error) {
	d, err := makeDir(dir)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	return openFiles(d, unix.O_CREAT|unix.O_NONBLOCK)
}

// OpenExisting is like Open, but returns fs.ErrNotExist instead of creating files.
func OpenExisting(dir string) (*Files, error) { return openExisting(dir, unix.O_NONBLOCK) }

// OpenWaiting is like OpenExisting, but waits until the kernel has broken the leases on the files. This takes up to
// lease-break-time (45 s) for each of the two files. While OpenWaiting waits for a file, no process can take a new lease on
// the file.
func OpenWaiting(dir string) (*Files, error) { return openExisting(dir, 0) }

// HoldWaiting opens all files of the view in dir for writing, and waits until the kernel has broken the leases on them. This takes up
// to lease-break-time, because HoldWaiting opens the files at the same time. While it waits for a file, and until release is called, no
// process can take a new lease on the file. Missing files are no error.
func HoldWaiting(dir string) (release func(), err error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	names := []string{onlineName, cpuinfoName, meminfoName, swapsName, statName}
	files, errs := make([]*os.File, len(names)), make([]error, len(names))
	var opens sync.WaitGroup
	for i, name := range names {
		opens.Go(func() { files[i], errs[i] = openFile(d, name, 0) })
	}
	opens.Wait()
	release = func() {
		for _, file := range files {
			if file != nil {
				file.Close()
			}
		}
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			release()
			return nil, fmt.Errorf("view: %w", err)
		}
	}
	return release, nil
}

func openExisting(dir string, flags int) (*Files, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	return openFiles(d, flags)
}

func openFiles(d *os.File, flags int) (f *Files, err error) {
	f = &Files{dir: d.Name()}
	if f.online, err = openFile(d, onlineName, flags); err == nil {
		f.cpuinfo, err = openFile(d, cpuinfoName, flags)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("view: %w", err)
	}
	return f, nil
}

// IsCurrent reports whether the open files are the view's present files. It returns false if the view was removed or recreated.
func (f *Files) IsCurrent() bool {
	for _, file := range []*os.File{f.online, f.cpuinfo} {
		info, err := file.Stat()
		now, lstatErr := os.Lstat(file.Name())
		if err != nil || lstatErr != nil || !os.SameFile(info, now) {
			return false
		}
	}
	return true
}

// Close closes the files. It does not remove the view.
func (f *Files) Close() {
	for _, file := range []*os.File{f.online, f.cpuinfo} {
		if file != nil {
			file.Close()
		}
	}
}

// Write rewrites the view, as the function Write does.
func (f *Files) Write(cpus cpuset.Set) error {
	if cpus.IsEmpty() {
		return noCPUsError(f.dir)
	}
	host, err := machine.get()
	if err != nil {
		return fmt.Errorf("view %s: %w", f.dir, err)
	}
	return f.write(cpus, host)
}

func noCPUsError(dir string) error { return fmt.Errorf("view %s: a view needs at least one CPU", dir) }

// ReadCPUs returns the CPUs that the view in dir shows. The error is fs.ErrNotExist if there is no view. ReadCPUs does not wait for a
// lease, but returns ErrLeased.
func ReadCPUs(dir string) (cpuset.Set, error) {
	path := filepath.Join(dir, onlineName)
	if err := kernelfs.FaultOf(kernelfs.ReadAccess, path); err != nil {
		return cpuset.Set{}, leaseError(&fs.PathError{Op: "open", Path: path, Err: err})
	}
	text, err := fileio.ReadNoLink(path, 1<<16)
	if err != nil {
		return cpuset.Set{}, leaseError(err)
	}
	cpus, err := parseOnline(text)
	if err != nil {
		return cpus, fmt.Errorf("%s: %w", path, err)
	}
	return cpus, nil
}

// leaseError adds ErrLeased to the kernel's EWOULDBLOCK, which the open of a file with a lease returns.
func leaseError(err error) error {
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: %w", err, ErrLeased)
	}
	return err
}

// machine caches /proc/cpuinfo of this machine.
var machine machineInfo

// A machineInfo caches the content of /proc/cpuinfo while the set of online CPUs does not change. With hundreds of CPUs, the kernel takes
// milliseconds to create this content, mostly to measure CPU frequencies. The cached frequencies do no harm, because the
// frequencies in a view are out of date in any case.
type machineInfo struct {
	sync.Mutex
	online string
	info   *cpuinfo
}

func (m *machineInfo) get() (*cpuinfo, error) {
	m.Lock()
	defer m.Unlock()
	online, err := kernelfs.Read(hostOnline)
	if err != nil {
		return nil, fmt.Errorf("is /sys mounted? %w", err)
	}
	if m.info != nil && m.online == string(online) {
		return m.info, nil
	}
	text, err := kernelfs.ReadLong(hostCPUInfo, maxCPUInfo)
	if err != nil {
		return nil, fmt.Errorf("is /proc mounted? %w", err)
	}
	info, err := parseCPUInfo(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", hostCPUInfo, err)
	}
	if set, err := cpuset.Parse(strings.TrimSpace(string(online))); err == nil && set == info.cpus() { // no change between the two reads
		m.info, m.online = &info, string(online)
	}
	return &info, nil
}

// write rewrites the view with stanzas from host, the machine's /proc/cpuinfo.
func (f *Files) write(cpus cpuset.Set, host *cpuinfo) error {
	text, err := host.render(cpus)
	if err != nil {
		return fmt.Errorf("view %s: %s: %w", f.dir, hostCPUInfo, err)
	}
	online, err := extend(f.online, append(cpus.Append(nil), '\n'))
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	info, err := extend(f.cpuinfo, text)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	// Write online last. Then a reader that finds new CPUs in online also finds them in cpuinfo, even if this process is
	// killed between the two writes.
	if err := info.put(); err != nil {
		return err
	}
	return online.put()
}

// A rewrite is a file of a view, already extended to its new length, with the content to write.
type rewrite struct {
	file    *os.File
	content []byte // new content, padded to the length of the file
}

// extend prepares a rewrite. It extends the file with newlines to the length of the content, or pads the content with newlines to the
// length of the file.
func extend(f *os.File, content []byte) (rewrite, error) {
	if err := kernelfs.FaultOf(kernelfs.WriteAccess, f.Name()); err != nil {
		return rewrite{}, &fs.PathError{Op: "write", Path: f.Name(), Err: err}
	}
	stat, err := f.Stat()
	if err != nil {
		return rewrite{}, err
	}
	if more := len(content) - int(stat.Size()); more > 0 {
		if _, err := f.WriteAt(newlines(more), stat.Size()); err != nil {
			return rewrite{}, err
		}
	} else {
		content = append(content, newlines(-more)...)
	}
	return rewrite{f, content}, nil
}

func newlines(n int) []byte { return bytes.Repeat([]byte("\n"), n) }

// put replaces the whole content of the file by a single pwrite.
func (r rewrite) put() error {
	if _, err := r.file.WriteAt(r.content, 0); err != nil {
		return fmt.Errorf("view: %w", err)
	}
	return nil
}

// makeDir opens the view's directory. It creates a missing directory.
func makeDir(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // openDir checks owner and type
		return nil, err
	}
	d, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	if err := d.Chmod(0o755); err != nil { // regardless of the umask
		d.Close()
		return nil, err
	}
	return d, nil
}

// openDir opens the view's directory. It refuses a directory of another user, and a symbolic link.
func openDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return nil, fmt.Errorf("%s is not a directory, or a symbolic link: refused", dir)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	d := os.NewFile(uintptr(fd), dir)
	if err := checkOwner(d, unix.S_IFDIR); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// openFile opens a file of the view, or creates it if flags contain O_CREAT. It refuses a symbolic link, a pipe, a device
// and a file of another user.
func openFile(dir *os.File, name string, flags int) (*os.File, error) {
	flags |= unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC
	mode := uint32(0o644)
	if name == liveName { // other users could lock the file
		mode = 0o600
	}
	path := filepath.Join(dir.Name(), name)
	err := kernelfs.FaultOf(kernelfs.WriteAccess, path)
	fd := -1
	for retry := err == nil; retry; retry = err == unix.EINTR {
		fd, err = unix.Openat(int(dir.Fd()), name, flags, mode)
	}
	if err == unix.ELOOP {
		return nil, fmt.Errorf("%s is a symbolic link: refused", path)
	}
	if err != nil {
		return nil, leaseError(&fs.PathError{Op: "open", Path: path, Err: err})
	}
	f := os.NewFile(uintptr(fd), path)
	err = checkOwner(f, unix.S_IFREG)
	if err == nil {
		err = f.Chmod(os.FileMode(mode))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkOwner returns an error for a file that this package has not created. These are files of another type than kind, files of another
// user, and regular files with several hard links.
func checkOwner(f *os.File, kind uint32) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	switch {
	case stat.Mode&unix.S_IFMT != kind:
		return fmt.Errorf("%s is not a plain file: refused", f.Name())
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, not to user %d: refused", f.Name(), stat.Uid, os.Geteuid())
	case kind == unix.S_IFREG && stat.Nlink > 1:
		return fmt.Errorf("%s is a hard link: refused", f.Name())
	}
	return nil
}

// Remove removes a view with its live files and its directory. Bind mounts of the files remain valid and keep their content.
// Remove returns nil for a missing view.
func Remove(dir string) error {
	if err := removeFiles(dir, onlineName, cpuinfoName, meminfoName, swapsName, totalName, statName, liveName); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("view: %w", err)
	}
	return nil
}

// removeFiles removes files of the view in dir. A missing view is no error.
func removeFiles(dir string, names ...string) error {
	d, err := openDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	for _, name := range names {
		if err := unix.Unlinkat(int(d.Fd()), name, 0); err != nil && err != unix.ENOENT {
			return fmt.Errorf("view: %w", &fs.PathError{Op: "remove", Path: filepath.Join(dir, name), Err: err})
		}
	}
	return nil
}
