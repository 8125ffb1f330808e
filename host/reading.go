package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/view"
)

// A Reading is what the kernel says of a running container: what it has used, and what it sees.
type Reading struct {
	Usage cgroup.Usage
	CPUs  cpuset.Set // that its processes may use now
	Shown cpuset.Set // by the files of its view; empty if none is mounted
	// IsHidden reports that a process in the container holds a lease on the view, so that it cannot be read now.
	IsHidden bool
}

// Read reads a container's group and its first process. It takes no lock. The error is
// cgroup.ErrNoGroup, or fs.ErrNotExist, where the container has ended.
func (h *Host) Read(of *Grant) (r Reading, err error) {
	g := h.groupOf(of)
	if r.CPUs, _, err = g.Effective(); err != nil {
		return r, err
	}
	if r.Usage, err = h.tree.ReadUsage(cmp.Or(of.Engine.Cgroup, of.ID)); err != nil || of.View != ViewFull {
		return r, err
	}
	processes, err := g.Processes()
	if err == nil && len(processes) == 0 { // its group goes last
		err = fmt.Errorf("%s: its processes: %w", of.ID, fs.ErrNotExist)
	}
	if err != nil {
		return r, err
	}
	first := processes[0]
	if of.Main.Alive() {
		first = of.Main.PID
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", first))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH) { // it is about to go, and has no mounts any more
		return r, fmt.Errorf("%s: its first process: %w", of.ID, fs.ErrNotExist)
	}
	if viewIn(mounts) == of.ID {
		r.Shown, err = h.store.shown(of.ID)
		if r.IsHidden = errors.Is(err, view.ErrLeased); r.IsHidden {
			err = nil
		}
	}
	return r, err
}

// OpenUsage opens what a container uses, to be read many times a second. It takes no lock. The errors are those of Read.
func (h *Host) OpenUsage(of *Grant) (*cgroup.UsageReader, error) {
	return h.tree.OpenUsage(cmp.Or(of.Engine.Cgroup, of.ID))
}
