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
	"github.com/candor-project/candor/internal/kernfile"
)

const (
	hostOnline  = "/sys/devices/system/cpu/online"
	hostCPUInfo = "/proc/cpuinfo"
)

// The files of a view, in its directory.
const (
	onlineName  = "online"
	cpuinfoName = "cpuinfo"
)

// Write makes or rewrites the view of the given CPUs: dir/online and dir/cpuinfo,
// readable by all, the stanzas of the second taken from this machine's
// /proc/cpuinfo. The directory is made if it is missing, its parent is not.
//
// A rewrite keeps the inodes, which bind mounts follow, and never truncates: a
// reader sees the old content or the new one, as far as one pwrite can promise (see the
// package comment). Memory for a longer view is taken before anything changes:
// on an error that is met until then, the old view stands.
//
// The directory and the files must be what Write itself makes, owned by the caller;
// symbolic links and anything else in their place are refused.
func Write(dir string, cpus cpuset.Set) error {
	if cpus.IsEmpty() {
		return fmt.Errorf("view %s: a view needs at least one CPU", dir)
	}
	host, err := machine.get()
	if err != nil {
		return fmt.Errorf("view %s: %w", dir, err)
	}
	return write(dir, cpus, host)
}

// machine is what /proc/cpuinfo says.
var machine machineInfo

// A machineInfo keeps what was read while the same CPUs are online: with hundreds of them the kernel takes milliseconds, most of it
// for their frequencies, of which a view has those of some moment in any case.
type machineInfo struct {
	sync.Mutex
	online string
	info   *cpuinfo
}

func (m *machineInfo) get() (*cpuinfo, error) {
	m.Lock()
	defer m.Unlock()
	online, err := kernfile.Read(hostOnline)
	if err != nil {
		return nil, fmt.Errorf("is /sys mounted? %w", err)
	}
	if m.info != nil && m.online == string(online) {
		return m.info, nil
	}
	text, err := kernfile.Read(hostCPUInfo)
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

// write is Write with what the machine's /proc/cpuinfo says.
func write(dir string, cpus cpuset.Set, host *cpuinfo) error {
	text, err := host.render(cpus)
	if err != nil {
		return fmt.Errorf("view %s: %s: %w", dir, hostCPUInfo, err)
	}
	d, err := makeDir(dir)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	online, err := reserve(d, onlineName, append(cpus.Append(nil), '\n'))
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer online.file.Close()
	info, err := reserve(d, cpuinfoName, text)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer info.file.Close()
	// online comes last: who finds the new CPUs there knows that cpuinfo has them too,
	// however the writer ended.
	if err := info.put(); err != nil {
		return err
	}
	return online.put()
}

// A rewriting is a file of a view and the content that it is to get.
type rewriting struct {
	file    *os.File
	content []byte // padded: as long as the file
}

// reserve opens or makes a file of the view and makes it long enough for content
// by newlines at its end, which change nothing for a reader.
func reserve(dir *os.File, name string, content []byte) (rewriting, error) {
	f, err := openFile(dir, name)
	if err != nil {
		return rewriting{}, err
	}
	stat, err := f.Stat()
	if err != nil {
		f.Close()
		return rewriting{}, err
	}
	if more := len(content) - int(stat.Size()); more > 0 {
		if _, err := f.WriteAt(newlines(more), stat.Size()); err != nil {
			f.Close()
			return rewriting{}, err
		}
	} else {
		content = append(content, newlines(-more)...)
	}
	return rewriting{f, content}, nil
}

func newlines(n int) []byte { return bytes.Repeat([]byte("\n"), n) }

// put writes the content over the file's, by one pwrite of the file's length.
func (r rewriting) put() error {
	if _, err := r.file.WriteAt(r.content, 0); err != nil {
		return fmt.Errorf("view: %w", err)
	}
	return nil
}

// makeDir opens the view's directory, which it makes if it is missing.
func makeDir(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	d, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	if err := d.Chmod(0o755); err != nil { // whatever the umask is
		d.Close()
		return nil, err
	}
	return d, nil
}

// openDir opens the view's directory if it is one, and the caller's own.
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

// openFile opens or makes a file of the view. A link, a pipe, a device or somebody
// else's file in its place is refused.
func openFile(dir *os.File, name string) (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	path := filepath.Join(dir.Name(), name)
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0o644)
	if err == unix.ELOOP {
		return nil, fmt.Errorf("%s is a symbolic link: refused", path)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
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

// checkOwner refuses what this package does not make: another type of file,
// another owner, a regular file with a second name.
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

// Remove removes a view and its directory. Mounts of it that are still in use
// keep their content. A view that is not there is no error.
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
