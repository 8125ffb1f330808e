package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/view"
)

// A Reading is what the kernel says of a running container: what it has used, and what it sees.
type Reading struct {
	Usage cgroup.Usage
	CPUs  cpuset.Set // that its processes may use now
	Shown cpuset.Set // by the files of its view; empty if none is mounted
	// IsHidden reports that Shown is unknown: a process in the container holds a lease on the view, or the container has
	// more mounts or groups than Read inspects.
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
	first := of.Main.PID
	if !of.Main.Alive() {
		if first, err = g.FirstProcess(); errors.Is(err, cgroup.ErrTooMany) {
			r.IsHidden = true
			return r, nil
		}
	}
	if err == nil && first == 0 { // its group is removed after its processes
		err = fmt.Errorf("%s: its processes: %w", of.ID, fs.ErrNotExist)
	}
	if err != nil {
		return r, err
	}
	return r, h.readShown(&r, of.ID, first)
}

// readShown finds out whether a process has its container's view. A stat of the file in the process's root would be
// cheaper, but never return where a tenant has mounted a file system of its own there that does not answer.
func (h *Host) readShown(r *Reading, name string, pid int) error {
	seen, isCovered, err := viewIn(fmt.Sprintf("/proc/%d/mountinfo", pid), procfs.MaxTenantMounts)
	switch {
	case errors.Is(err, kernelfs.ErrTooLong):
		r.IsHidden = true
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ESRCH): // it is about to end, and has no mounts any more
		return fmt.Errorf("%s: its first process: %w", name, fs.ErrNotExist)
	case err == nil && seen == name && !isCovered:
		r.Shown, err = h.store.shown(name)
		if r.IsHidden = errors.Is(err, view.ErrLeased); r.IsHidden {
			err = nil
		}
	}
	return err
}

// OpenUsage opens what a container uses, to be read many times a second. It takes no lock. The errors are those of Read.
func (h *Host) OpenUsage(of *Grant) (*cgroup.UsageReader, error) {
	return h.tree.OpenUsage(cmp.Or(of.Engine.Cgroup, of.ID))
}
