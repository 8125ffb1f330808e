package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/errline"
)

// Files of the two resources of the cpuset controller, CPUs and memory nodes. Both files have the same format and the same rules, so
// that a cpuset.Set can also hold memory nodes.
const (
	cpusFile = "cpuset.cpus"
	memsFile = "cpuset.mems"
)

// retries bounds the attempts to change a group while another program creates nested groups. An attempt takes 0.1 ms.
const retries = 50

// readEffective returns the CPUs or memory nodes that the processes of the group in dir can use. file is cpusFile or memsFile.
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

// effectiveNames is the index of the file name that readEffective found last: 0 for the name on v2, 1 for the name on v1.
var effectiveNames atomic.Int32

// setCpuset sets the CPUs and memory nodes of a group and its nested groups. If mems is empty, a group of Candor gets the memory nodes
// of the parent, and a foreign group keeps its memory nodes. setCpuset undoes a failed change.
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

// setMems sets the memory nodes of the group in dir, or if mems is empty the nodes of the parent. It returns the former memory nodes.
func (t *Tree) setMems(dir string, mems cpuset.Set) (before cpuset.Set, err error) {
	if before, err = t.readSet(dir, memsFile); err != nil {
		return before, err
	}
	if mems.IsEmpty() {
		if t.cpuset.v2 && before.IsEmpty() {
			return before, nil // on v2 an empty set means the nodes of the parent
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

// moveTo changes a resource of a group from old to next, also in nested groups. It returns an error if the group cannot get all of next.
func (t *Tree) moveTo(dir, file string, old, next cpuset.Set) error {
	if t.cpuset.v2 {
		// v2 accepts any value, and silently applies the intersection of the value and the parent's set. If the intersection is
		// empty, v2 applies the whole set of the parent, and the group would run on the CPUs of other containers.
		if err := t.checkAvailable(filepath.Dir(dir), file, next); err != nil {
			return err
		}
		return t.moveV2(dir, file, next)
	}
	err := t.moveFromV1(dir, file, old, next)
	if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ERANGE) {
		return err
	}
	// The parent can lack a CPU that was offline and is online again.
	if refreshErr := t.Refresh(); refreshErr != nil {
		return errline.Join(err, refreshErr)
	}
	if cause := t.checkAvailable(filepath.Dir(dir), file, next); cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return t.moveV1(dir, file, next)
}

// moveBack restores the former value of a resource in a group and its nested groups.
func (t *Tree) moveBack(dir, file string, before cpuset.Set) error {
	if before.IsEmpty() {
		return nil // the group was new
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

// checkAvailable returns ErrUnavailable unless the parent group has all the wanted CPUs or memory nodes.
func (t *Tree) checkAvailable(parent, file string, wanted cpuset.Set) error {
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

// Apply changes the settings of a group. It writes only values that differ, and changes nested groups if the kernel requires this. On an
// error Apply restores the former settings. If the restoration fails too, the error contains its cause.
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
	if s.Weight == g.tree.cpu.weightOf(before.weight) { // the caller has read this weight: do not round it a second time
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

// roundUnits returns a state with the bandwidth rounded to systemd's steps. It does not round an unchanged bandwidth, because the
// present quota can be a temporary quota from SetQuota, which the unit does not have.
func (s state) roundUnits(before state) state {
	if s.quota != before.quota || s.period != before.period {
		s.cfsBandwidth = roundForSystemd(s.cfsBandwidth)
	}
	return s
}

// SetCPUs sets the CPUs and memory nodes of a group and its nested groups. If mems is empty, the group gets the memory nodes of the
// parent; a foreign group keeps its nodes. To move a container, SetCPUs is cheaper than Apply: without nested groups it makes at most
// two writes. SetCPUs returns ErrUnavailable if the parent lacks some of the CPUs or nodes.
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

// set changes all values of a group to a state.
func (g *Group) set(next state) error {
	if err := g.setCpuset(next.cpus, next.mems); err != nil {
		return err
	}
	return g.quotaCause(g.tree.cpu.setCPU(g.dir(g.tree.cpu), next.cpuState), next.cfsBandwidth)
}

// undo restores the state before a failed change. failed is the state that the change should have set.
func (g *Group) undo(before, failed state) error {
	if g.usesSystemd() {
		if err := g.updateScope(failed, before); err != nil {
			return undoError(err)
		}
	}
	if before.cpus.IsEmpty() {
		before.cpus = failed.cpus // an empty list cannot be written, so the new CPUs stay
	}
	if err := g.set(before); err != nil {
		return undoError(err)
	}
	return nil
}

// A Reservation is the set of CPUs that are exclusive to a foreign group: the kernel does not allow these CPUs in the group's siblings.
// (Not to be confused with CPUs that Candor reserves for a container.)
type Reservation struct {
	Path string // path of the group below the mount point of the cpuset controller
	CPUs cpuset.Set
}

// Reservations returns the CPUs that Candor's groups cannot have because they are exclusive to foreign groups. On v1 these groups have
// cpuset.cpu_exclusive; on v2 they are partitions (cpuset.cpus.partition). Reservations reads the siblings of Candor's parent group and of
// each ancestor of the parent group.
func (t *Tree) Reservations() ([]Reservation, error) {
	h := t.cpuset
	var all []Reservation
	for dir := h.parent; dir != h.mount; dir = filepath.Dir(dir) {
		read := t.partitionsV2
		if !h.v2 {
			read = func(dir string) ([]Reservation, error) { return t.exclusivesV1(dir, cpusFile) }
		}
		found, err := read(dir)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			r.Path = h.pathOf(r.Path)
			all = append(all, r)
		}
	}
	return all, nil
}

// siblings returns the folders of the siblings of the group in dir. The group need not exist.
func siblings(dir string) ([]string, error) {
	all, err := subgroups(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(all, func(other string) bool { return other == dir }), err
}

// partitionsV2 returns the CPUs of the siblings of a group that are valid partitions. Path is the folder of the sibling.
func (t *Tree) partitionsV2(dir string) (found []Reservation, err error) {
	groups, err := siblings(dir)
	for _, other := range groups {
		kind, err := read(other, string(ConfineToPartition))
		if isGone(err) || err == nil && string(kind) != "root" && string(kind) != "isolated" { // not "root invalid (…)" either
			continue
		}
		var cpus cpuset.Set
		if err == nil {
			cpus, err = t.readSet(other, "cpuset.cpus.exclusive.effective") // includes the CPUs of nested partitions
		}
		if errors.Is(err, fs.ErrNotExist) { // Linux before 6.7
			cpus, err = t.readEffective(other, cpusFile)
		}
		if err != nil && !isGone(err) {
			return nil, err
		}
		if !cpus.IsEmpty() {
			found = append(found, Reservation{other, cpus})
		}
	}
	return found, err
}

// exclusiveFlags maps the file of a resource to the v1 file that makes the group's part of the resource exclusive. A write that would give
// a sibling a part of an exclusive resource fails with EINVAL (validate_change in kernel/cgroup/cpuset.c).
var exclusiveFlags = map[string]string{cpusFile: "cpuset.cpu_exclusive", memsFile: "cpuset.mem_exclusive"}

// exclusivesV1 returns the exclusive CPUs, or for memsFile the exclusive memory nodes, of the siblings of a group. Path is the folder of
// the sibling.
func (t *Tree) exclusivesV1(dir, file string) (found []Reservation, err error) {
	groups, err := siblings(dir)
	for _, other := range groups {
		flag, err := readInt(other, exclusiveFlags[file])
		var set cpuset.Set
		if err == nil && flag != 0 {
			set, err = t.readSet(other, file)
		}
		if err != nil && !isGone(err) {
			return nil, err
		}
		if !set.IsEmpty() {
			found = append(found, Reservation{other, set})
		}
	}
	return found, err
}

// excludeReservedV1 returns the CPUs or memory nodes that the group in dir can have: the set of the group's parent (above) minus the
// exclusive sets of the group's siblings. now is the group's present set.
func (t *Tree) excludeReservedV1(dir, file string, above, now cpuset.Set) (cpuset.Set, error) {
	if above.SubsetOf(&now) { // the group has everything, so no sibling can have an exclusive part
		return above, nil
	}
	exclusives, err := t.exclusivesV1(dir, file)
	if err != nil {
		return above, err
	}
	remaining := above
	for _, r := range exclusives {
		remaining = remaining.Minus(r.CPUs)
	}
	if remaining.IsEmpty() && !above.IsEmpty() {
		return remaining, fmt.Errorf("cgroup %s: %s: %w: all of %s is exclusive to %s (%s=1); clear that flag, or give it fewer",
			dir, file, ErrUnavailable, above, strings.Join(reservedPaths(exclusives), ", "), exclusiveFlags[file])
	}
	return remaining, nil
}

func reservedPaths(reservations []Reservation) (dirs []string) {
	for _, r := range reservations {
		dirs = append(dirs, r.Path)
	}
	return dirs
}
