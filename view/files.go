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
	maxCPUInfo  = 64 << 20 // bytes: 8,192 CPUs with 2 kB each are 16 MiB
	hostOnline  = "/sys/devices/system/cpu/online"
	hostCPUInfo = "/proc/cpuinfo"
)

// The files of a view, in its directory.
const (
	onlineName  = "online"
	cpuinfoName = "cpuinfo"
)

// ErrLeased reports that a process in the container holds a lease on a file of the view (fcntl F_SETLEASE), so that
// the file cannot be opened without a wait. The kernel breaks the lease after /proc/sys/fs/lease-break-time.
var ErrLeased = errors.New("a process in the container holds a lease on the file")

// Write creates or rewrites the view of the given CPUs: dir/online and dir/cpuinfo, readable by all users. The stanzas of cpuinfo come
// from this machine's /proc/cpuinfo. Write creates the directory if it is missing, but not its parent.
//
// A rewrite keeps the inodes, which bind mounts follow, and never truncates: a reader sees the old or the new content, as far as a
// pwrite guarantees it (see the package comment). Write reserves the space for a longer view before it changes the files: if that
// fails, the old view stays.
//
// The caller must own the directory and the files. Write refuses symbolic links and other types of files. It never waits for a process
// in the container: ErrLeased.
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

// Open opens the files of a view, and creates those that are missing. It does not wait: ErrLeased.
func Open(dir string) (*Files, error) {
	d, err := makeDir(dir)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	return openFiles(d, unix.O_CREAT|unix.O_NONBLOCK)
}

// OpenExisting is Open without creating files: fs.ErrNotExist.
func OpenExisting(dir string) (*Files, error) { return openExisting(dir, unix.O_NONBLOCK) }

// OpenWaiting is OpenExisting, but waits until the kernel has broken the leases on the files: lease-break-time, 45 s, for
// each. From its start on, no process can take a new lease on the file.
func OpenWaiting(dir string) (*Files, error) { return openExisting(dir, 0) }

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

// IsCurrent reports whether the view's files are still these: the view has not been removed or created again.
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

// Close closes the files. The view stays.
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

// ReadCPUs returns the CPUs in the view of dir. The error is fs.ErrNotExist if there is no view. Shown does not wait: ErrLeased.
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

// leaseError turns the kernel's EWOULDBLOCK for a file under a lease into ErrLeased.
func leaseError(err error) error {
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: %w", err, ErrLeased)
	}
	return err
}

// machine is the content of /proc/cpuinfo.
var machine machineInfo

// A machineInfo caches the content while the same CPUs are online: with hundreds of CPUs the kernel takes milliseconds, mostly for
// their frequencies. A view has the frequencies of an earlier moment in any case.
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
	if set, err := cpuset.Parse(strings.TrimSpace(string(online))); err == nil && set == info.cpus() { // none came or went meanwhile
		m.info, m.online = &info, string(online)
	}
	return &info, nil
}

// write writes a view for a machine with the given /proc/cpuinfo.
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
	// online comes last: a reader that finds new CPUs there finds them in cpuinfo too,
	// even if the writer was killed in between.
	if err := info.put(); err != nil {
		return err
	}
	return online.put()
}

// A rewrite is a file of a view and its next content.
type rewrite struct {
	file    *os.File
	content []byte // padded: as long as the file
}

// extend extends a file of the view to the length of the content, with newlines that readers ignore.
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

// put writes the content over the file's content, by a single pwrite of the file's length.
func (r rewrite) put() error {
	if _, err := r.file.WriteAt(r.content, 0); err != nil {
		return fmt.Errorf("view: %w", err)
	}
	return nil
}

// makeDir opens the view's directory, and creates it if it is missing.
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

// openDir opens the view's directory, which the caller must own.
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

// openFile opens or creates a file of the view. It refuses a symbolic link, a pipe, a device and another user's
// file in its place.
func openFile(dir *os.File, name string, flags int) (*os.File, error) {
	flags |= unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC
	path := filepath.Join(dir.Name(), name)
	err := kernelfs.FaultOf(kernelfs.WriteAccess, path)
	fd := -1
	for retry := err == nil; retry; retry = err == unix.EINTR {
		fd, err = unix.Openat(int(dir.Fd()), name, flags, 0o644)
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
		err = f.Chmod(0o644)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkOwner refuses files that this package does not create: another type of file, another owner, a regular file with a second name.
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

// Remove removes a view and its directory. Mounts of the files keep their content. A missing view is no error.
func Remove(dir string) error {
	d, err := openDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	for _, name := range []string{onlineName, cpuinfoName} {
		if err := unix.Unlinkat(int(d.Fd()), name, 0); err != nil && err != unix.ENOENT {
			return fmt.Errorf("view: %w", &fs.PathError{Op: "remove", Path: filepath.Join(dir, name), Err: err})
		}
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("view: %w", err)
	}
	return nil
}
