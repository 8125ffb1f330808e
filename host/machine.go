package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/topology"
)

const onlineFile = "/sys/devices/system/cpu/online"

// A machineCache keeps the topology while the same CPUs are online: reading it
// takes a dozen files a CPU.
type machineCache struct {
	sync.Mutex
	online  string
	machine *topology.Machine
}

func (c *machineCache) get() (*topology.Machine, error) {
	c.Lock()
	defer c.Unlock()
	online, err := kernelfs.Read(onlineFile)
	if err != nil {
		return nil, err
	}
	if c.machine != nil && c.online == string(online) {
		return c.machine, nil
	}
	machine, err := topology.ReadHost()
	if err != nil {
		return nil, err
	}
	c.machine, c.online = machine, string(online)
	return machine, nil
}

// ReadMachine reads this machine's topology: the machine's own also where a container's
// view hides most of it. The error is ErrInside where that cannot be seen.
func ReadMachine() (m *topology.Machine, err error) {
	err = outside(func() error {
		m, err = topology.ReadHost()
		return err
	})
	return m, err
}

// ErrInside: this is inside a container's view, and the machine cannot be seen.
var ErrInside = errors.New("inside a container's view of the CPUs")

// outside runs f where the kernel's own /sys and /proc are seen. In a container of
// Candor a view is mounted over some of it: a candor that believed the view would
// take all other CPUs for gone, and move everybody. There f runs on a thread with a
// mount namespace of its own, from which the view is taken.
func outside(f func() error) error {
	name := viewHere()
	if name == "" {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := takeViewsOff(); err != nil {
			done <- fmt.Errorf("%w (%s): run candor outside of it, or as root: %w", ErrInside, name, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// takeViewsOff gives the calling thread a mount namespace without views.
func takeViewsOff() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	for viewHere() != "" { // a container that was started in a container has two
		for _, file := range []string{onlineFile, "/proc/cpuinfo"} {
			if err := unix.Unmount(file, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", file, err)
			}
		}
	}
	return nil
}

// viewHere returns the name of the container whose view is mounted over the
// list of online CPUs; "" if none is.
func viewHere() string {
	var file, dir unix.Stat_t // a mounted file is of another file system: the list of mounts may be long
	if unix.Stat(onlineFile, &file) == nil && unix.Stat(filepath.Dir(onlineFile), &dir) == nil && file.Dev == dir.Dev {
		return ""
	}
	name, _, _ := viewIn("/proc/thread-self/mountinfo", procfs.MaxHostMounts)
	return name
}

// viewIn returns the name of the container whose view is mounted over the list of online CPUs in a mount table, "" if
// none is, and whether a later mount covers that view. The error is kernelfs.ErrTooLong for a table beyond limit bytes.
func viewIn(file string, limit int64) (name string, isCovered bool, err error) {
	err = procfs.EachMount(file, limit, []string{onlineFile}, func(m *mountinfo.Info) {
		if m.Mountpoint != onlineFile {
			return
		}
		isCovered = true
		// The root of the mount of a view is /candor/views/web/online in some file system.
		if views, of := filepath.Split(filepath.Dir(m.Root)); filepath.Base(m.Root) == "online" && filepath.Base(views) == "views" {
			name, isCovered = of, false
		}
	})
	return name, isCovered, err
}
