package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/errline"
)

// The two resources of the cpuset controller. Memory nodes have the format and
// the rules of CPUs, so a cpuset.Set holds them too.
const (
	cpusFile = "cpuset.cpus"
	memsFile = "cpuset.mems"
)

// retries bounds the restarts of a change while another program creates groups below it. An attempt takes 0.1 ms.
const retries = 50

// readEffective returns the CPUs or memory nodes that the processes of a group can use.
func (t *Tree) readEffective(dir, file string) (cpuset.Set, error) {
	names := [2]string{file + ".effective", "cpuset.effective_" + file[len("cpuset."):]}
	first := effectiveNames.Load()
	set, err := t.readSet(dir, names[first])
	if errors.Is(err, unix.ENOENT) {
		if other, found := t.readSet(dir, names[1-first]); !errors.Is(found, unix.ENOENT) {
			effectiveNames.Store(1 - first)
			return other, found
		}
	}
	return set, err
}

// effectiveNames are those that the kernel had last: v2's, or 1 for v1's.
var effectiveNames atomic.Int32

// setCpuset sets the CPUs and memory nodes of a group and its nested groups. No memory nodes means the nodes of the parent, or for
// a foreign group its present nodes. A failed change is undone.
func (g *Group) setCpuset(cpus, mems cpuset.Set) error {
	t, dir := g.tree, g.dir(g.tree.cpuset)
	if keepsMems := g.path != "" && mems.IsEmpty(); keepsMems && !t.cpuset.v2 && t.swapV1(dir, cpus) {
		return nil
	}
	cpusBefore, err := t.readSet(dir, cpusFile)
	if err != nil {
		return err
	}
	if err := t.moveTo(dir, cpusFile, cpusBefore, cpus); err != nil {
		return errline.Join(err, t.moveBack(dir, cpusFile, cpusBefore))
	}
	if g.path == "" || !mems.IsEmpty() {
		if memsBefore, err := t.setMems(dir, mems); err != nil {
			return errline.Join(err, t.moveBack(dir, memsFile, memsBefore), t.moveBack(dir, cpusFile, cpusBefore))
		}
	}
	if t.cpuset.v2 || !cpusBefore.IsEmpty() {
		return nil
	}
	return g.returnProcessesV1()
}

// setMems returns the memory nodes that the group had before.
func (t *Tree) setMems(dir string, mems cpuset.Set) (before cpuset.Set, err error) {
	if before, err = t.readSet(dir, memsFile); err != nil {
		return before, err
	}
	if mems.IsEmpty() {
		if t.cpuset.v2 && before.IsEmpty() {
			return before, nil // has its parent's already
		}
		if mems, err = t.readEffective(filepath.Dir(dir), memsFile); err != nil {
			return before, err
		}
	}
	if mems == before {
		return before, nil
	}
	return before, t.moveTo(dir, memsFile, before, mems)
}

// moveTo sets a resource of a group and its nested groups, and checks that the group gets all of it. old is its present value.
func (t *Tree) moveTo(dir, file string, old, next cpuset.Set) error {
	if t.cpuset.v2 {
		// v2 accepts any value and silently applies its intersection with the parent's set, or the whole set of the parent if the
		// intersection is empty: then the group would run on CPUs of other containers.
		if err := t.available(filepath.Dir(dir), file, next); err != nil {
			return err
		}
		return t.moveV2(dir, file, next)
	}
	err := t.moveFromV1(dir, file, old, next)
	if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ERANGE) {
		return err
	}
	// The parent may have lost a CPU that is back by now.
	if refreshErr := t.Refresh(); refreshErr != nil {
		return errline.Join(err, refreshErr)
	}
	if cause := t.available(filepath.Dir(dir), file, next); cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return t.moveV1(dir, file, next)
}

// moveBack undoes a change as far as the kernel lets it.
func (t *Tree) moveBack(dir, file string, before cpuset.Set) error {
	if before.IsEmpty() {
		return nil // was new
	}
	move := t.moveV1
	if t.cpuset.v2 {
		move = t.moveV2
	}
	if err := move(dir, file, before); err != nil {
		return undoError(err)
	}
	return nil
}

// available reports an error unless the parent group has these CPUs or memory nodes.
func (t *Tree) available(parent, file string, wanted cpuset.Set) error {
	have, err := t.readEffective(parent, file)
	if err == nil && !wanted.SubsetOf(&have) {
		words := cputext.CPUs
		if file == memsFile {
			words = cputext.Mems
		}
		err = fmt.Errorf("%s: %s %w: %s has %s; use some of these, or change the cpuset of that group",
			file, words(wanted.Minus(have)), ErrUnavailable, parent, words(have))
	}
	return err
}

// Apply sets the settings of a group. It writes only differences, including nested groups where the kernel requires it. On an
// error the former settings are in force again, as far as the kernel permits; otherwise the error reports the difference.
func (g *Group) Apply(s Settings) error {
	if g.err != nil {
		return g.err
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("cgroup %s: %w", g.name, err)
	}
	before, err := g.state()
	if err != nil {
		return g.wrap(err)
	}
	next := s.kernel(g.tree.cpu)
	if s.Weight == g.tree.cpu.weightOf(before.weight) { // as it was read: it is not rounded a second time
		next.weight = before.weight
	}
	if g.usesSystemd() {
		next = next.roundUnits(before)
		if err := g.updateScope(before, next); err != nil {
			return g.wrap(err)
		}
	}
	if err := g.set(next); err != nil {
		return g.wrap(errline.Join(err, g.undo(before, next)))
	}
	return nil
}

// roundUnits returns a state in systemd's units. A present quota does not change: it can be raised (SetQuota), which does not
// concern the unit.
func (s state) roundUnits(before state) state {
	if s.quota != before.quota || s.period != before.period {
		s.cfsBandwidth = roundForSystemd(s.cfsBandwidth)
	}
	return s
}

// SetCPUs sets the CPUs and memory nodes of a group and its nested groups (no nodes: the parent's). It is the part of Apply that a
// move of a container needs: at most two writes without nested groups. ErrUnavailable: the parent lacks some of them.
func (g *Group) SetCPUs(cpus, mems cpuset.Set) error {
	if g.err != nil {
		return g.err
	}
	if cpus.IsEmpty() {
		return fmt.Errorf("cgroup %s: no CPUs: a group needs at least one", g.name)
	}
	if g.usesSystemd() {
		if err := g.updateScopeCPUs(cpus, mems); err != nil {
			return g.wrap(err)
		}
	}
	return g.wrap(g.setCpuset(cpus, mems))
}

// set writes a whole state.
func (g *Group) set(next state) error {
	if err := g.setCpuset(next.cpus, next.mems); err != nil {
		return err
	}
	return g.quotaCause(g.tree.cpu.setCPU(g.dir(g.tree.cpu), next.cpuState), next.cfsBandwidth)
}

// undo goes back to the state before a change that failed.
func (g *Group) undo(before, failed state) error {
	if g.usesSystemd() {
		if err := g.updateScope(failed, before); err != nil {
			return undoError(err)
		}
	}
	if before.cpus.IsEmpty() {
		before.cpus = failed.cpus // was never set: keep
	}
	if err := g.set(before); err != nil {
		return undoError(err)
	}
	return nil
}
