package view

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Mount mounts the files of the view in dir read-only over /sys/devices/system/cpu/online and /proc/cpuinfo. The mounts are visible to the
// calling process and its children.
//
// The process must have been started with a mount namespace of its own (CLONE_NEWNS). In the mount namespace of its parent, Mount returns
// an error, because it would change the files for the whole machine. Mount makes the namespace's mounts slaves of the host's mounts: later
// mounts of the host appear in the namespace, but mounts in the namespace do not appear on the host. On an error Mount leaves no file
// mounted.
func Mount(dir string) error {
	if err := checkNamespace(); err != nil {
		return fmt.Errorf("view %s: %w", dir, err)
	}
	d, err := openDir(dir)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	// MS_SLAVE: otherwise the bind mounts would also appear on a host on which / is a shared mount.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("view %s: cannot keep mounts from reaching the host: %w", dir, err)
	}
	if err := mountOver(d, onlineName, hostOnline); err != nil {
		return fmt.Errorf("view: %w", err)
	}
	if err := mountOver(d, cpuinfoName, hostCPUInfo); err != nil {
		return errors.Join(fmt.Errorf("view: %w", err), unix.Unmount(hostOnline, unix.MNT_DETACH))
	}
	return nil
}

// MountLive mounts the live files of the view in dir read-only over the files of the kernel. It must follow Mount. On an error
// some of the files can be mounted.
func MountLive(dir string, parts LiveParts) error {
	d, err := openDir(dir)
	if err != nil {
		return fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	for _, b := range LiveBinds(dir, parts) {
		if err := mountOver(d, filepath.Base(b.Source), b.Target); err != nil {
			return fmt.Errorf("view: %w", err)
		}
	}
	return nil
}

// checkNamespace returns an error if this process has the mount namespace of its parent process. (A comparison with the namespace of PID 1
// would be better, but even root can lack the right to read that namespace.)
func checkNamespace() error {
	ownNamespace, err := os.Readlink("/proc/thread-self/ns/mnt")
	if err != nil {
		return fmt.Errorf("is /proc mounted? %w", err)
	}
	parent, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", os.Getppid()))
	if err != nil {
		return fmt.Errorf("cannot compare the mount namespace with the parent's: %w", err)
	}
	if ownNamespace == parent {
		return errors.New("not in a mount namespace of its own; the whole machine would get this view")
	}
	return nil
}

// mountOver bind-mounts a file of the view over a file of the kernel.
func mountOver(dir *os.File, name, target string) error {
	path := filepath.Join(dir.Name(), name)
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if err := checkOwner(file, unix.S_IFREG); err != nil {
		return err
	}
	if _, err := os.Lstat(target); err != nil {
		return fmt.Errorf("cannot mount %s; is the file system of its target mounted? %w", path, err)
	}
	// Mount the file by its descriptor, so that the mounted file is the checked file.
	source := "/proc/self/fd/" + strconv.Itoa(fd)
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s over %s: %w", path, target, err)
	}
	if err := makeReadOnly(target); err != nil {
		return errors.Join(fmt.Errorf("mount %s over %s read-only: %w", path, target, err),
			unix.Unmount(target, unix.MNT_DETACH))
	}
	return nil
}

// makeReadOnly makes a bind mount read-only, without devices, set-user-ID and execution. It repeats the atime flags of the mount, because
// the kernel refuses to drop them in a user namespace.
func makeReadOnly(target string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		return err
	}
	const keep = unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME
	flags := uintptr(stat.Flags)&keep | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags, "")
}

// A Bind describes a bind mount of a view's file. It is for callers that do not use Mount, because the runtime of a
// container makes the mounts.
type Bind struct {
	Source     string // file of the view
	Target     string // file of the kernel that the mount hides
	Filesystem string // mount point of the file system that contains the target
}

// Binds returns the bind mounts of the view in dir.
func Binds(dir string) []Bind {
	return []Bind{
		{filepath.Join(dir, onlineName), hostOnline, "/sys"},
		{filepath.Join(dir, cpuinfoName), hostCPUInfo, "/proc"},
	}
}
