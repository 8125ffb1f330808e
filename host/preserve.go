package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/errline"
)

// Preserve makes all operations treat CPUs as reserved while the process pid lives (pid 0: this process). It serves containers
// whose user has chosen the CPUs. Flexible containers of Candor leave these CPUs. The error is ErrBadSpec if a sensitive
// container has some of the CPUs, or if no CPU would remain.
func (h *Host) Preserve(ctx context.Context, name string, cpus cpuset.Set, pid int) error {
	if err := cgroup.CheckName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrBadSpec, err)
	}
	if pid == 0 {
		pid = os.Getpid()
	}
	by, err := state.ProcessOf(pid)
	if err != nil {
		return err
	}
	return h.operate(ctx, func(op *operation) error {
		if err := op.checkPreserve(cpus); err != nil {
			return err
		}
		return op.withRollback(func() error { return op.preserve(name, state.Preserved{CPUs: cpus, By: by}) })
	})
}

// preserve stores the preserved CPUs of a container and replans the node. On an error it restores the former file.
func (op *operation) preserve(name string, next state.Preserved) error {
	before, existed := op.store.LoadPreserved(name)
	if err := op.store.SavePreserved(name, next); err != nil {
		return err
	}
	err := op.renew()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %s cannot count as reserved: %w", ErrBadSpec, cputext.CPUs(next.CPUs), err)
	if existed {
		return errline.Join(err, op.store.SavePreserved(name, before))
	}
	return errline.Join(err, os.Remove(op.store.PreservedFile(name)))
}

// renew builds op.node again from the grants, with the present preserved CPUs as reserved CPUs.
func (op *operation) renew() error {
	if err := op.restoreAll(op.wholeGrants()); err != nil {
		return err
	}
	return op.repair()
}

func (op *operation) checkPreserve(cpus cpuset.Set) error {
	for _, g := range op.node.Grants() {
		if g.Class == hybrid.Sensitive && g.CPUs.Overlaps(&cpus) {
			return fmt.Errorf("%w: cannot use %s: %s has %s while it runs", ErrBadSpec, cputext.CPUs(cpus), op.displayName(g.ID), cputext.CPUs(g.CPUs))
		}
	}
	machine := op.node.Machine()
	present := machine.Online.Union(machine.Offline)
	if !cpus.Overlaps(&present) {
		return fmt.Errorf("%w: the machine does not have %s; use CPUs of %v", ErrBadSpec, cputext.CPUs(cpus), present)
	}
	usable, _, _, err := op.usable()
	if err != nil {
		return err
	}
	options, err := op.NodeOptions()
	if err != nil {
		return err
	}
	all := options.Reserved.Union(op.store.PreservedCPUs()).Union(cpus)
	if cpus.Overlaps(&usable) && usable.SubsetOf(&all) {
		return fmt.Errorf("%w: %s of %v would count as reserved, and no CPU would remain for Candor's containers; use fewer", ErrBadSpec, cputext.CPUs(cpus.Intersect(usable)), usable)
	}
	return nil
}

// EndPreserve removes the preserved CPUs of a container that has ended, and of all other containers whose process has ended. The preserved
// CPUs of a living process remain, because the process can belong to a successor with the same name.
func (h *Host) EndPreserve(ctx context.Context, name string) error {
	if _, err := os.Lstat(h.store.PreservedFile(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := h.operateIfInUse(ctx, scope{}, func(op *operation) error {
		entries, _ := os.ReadDir(filepath.Dir(op.store.PreservedFile(name)))
		for _, entry := range entries {
			if p, ok := op.store.LoadPreserved(entry.Name()); ok && p.By.Alive() {
				continue
			}
			if err := os.Remove(op.store.PreservedFile(entry.Name())); err != nil {
				return err
			}
		}
		return op.renew() // flexible containers get the CPUs back
	})
	return err
}

// withPreserved adds the preserved CPUs to the reserved CPUs of the options, unless no usable CPU would remain.
func (h *Host) withPreserved(o NodeOptions, usable cpuset.Set) NodeOptions {
	all := o.Reserved.Union(h.store.PreservedCPUs().Intersect(usable))
	if !usable.SubsetOf(&all) {
		o.Reserved = all
	}
	return o
}
