package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
)

// moveTimeout bounds the time of a move: a container can create nested groups without end, and each takes two system calls or more.
const moveTimeout = 250 * time.Millisecond

// ErrManyGroups reports more nested groups than can be moved in time.
var ErrManyGroups = errors.New("too many nested groups to move in time")

// moveV1 sets a resource of the cpuset controller in a group and its nested groups. On v1 the set of a group must be within its
// parent's set at any moment, otherwise the kernel returns EBUSY (a child has more) or EACCES (the parent has less): grow from
// the top, shrink from the bottom, and to move, first grow to the union.
func (t *Tree) moveV1(dir, file string, next cpuset.Set) error {
	old, err := t.readSet(dir, file)
	if err != nil {
		return err
	}
	return t.moveFromV1(dir, file, old, next)
}

// moveFromV1 is moveV1 for a group with a known set.
func (t *Tree) moveFromV1(dir, file string, old, next cpuset.Set) error {
	m := cpusetMoveV1{t, file, time.Now().Add(moveTimeout)}
	return m.move(dir, old, next)
}

// A cpusetMoveV1 is a move of a group with the groups nested in it.
type cpusetMoveV1 struct {
	tree     *Tree
	file     string
	deadline time.Time
}

func (m *cpusetMoveV1) move(dir string, old, next cpuset.Set) error {
	if old == next {
		return nil
	}
	for try := 1; ; try++ {
		err := m.step(dir, old, next)
		// EBUSY: a group below this group was created, or grew, after the listing.
		if !errors.Is(err, unix.EBUSY) || try == retries || time.Now().After(m.deadline) {
			return err
		}
	}
}

func (m *cpusetMoveV1) step(dir string, old, next cpuset.Set) error {
	nested, err := subgroups(dir)
	if err != nil {
		return err
	}
	if len(nested) == 0 {
		return m.tree.setCpusetV1(dir, m.file, next)
	}
	union := old.Union(next)
	if union != old {
		if err := m.tree.setCpusetV1(dir, m.file, union); err != nil {
			return err
		}
	}
	for _, child := range nested {
		if time.Now().After(m.deadline) {
			return fmt.Errorf("%s: %w", dir, ErrManyGroups)
		}
		if err := m.follow(child, old, next); err != nil && !isGone(err) {
			return err
		}
	}
	if union == next {
		return nil
	}
	return m.tree.setCpusetV1(dir, m.file, next)
}

// follow changes a nested group after its parent. A group with the parent's whole set keeps the whole set. Another group keeps the
// remaining part of its set, or gets the whole set if no part remains.
func (m *cpusetMoveV1) follow(dir string, old, next cpuset.Set) error {
	now, err := m.tree.readSet(dir, m.file)
	if err != nil || now.IsEmpty() {
		return err // empty: not set up yet, and without processes
	}
	wanted := now.Intersect(next)
	if now == old || wanted.IsEmpty() {
		wanted = next
	}
	return m.move(dir, now, wanted)
}

// setCpusetV1 writes the set of a group. Used memory moves with the nodes, as on v2.
func (t *Tree) setCpusetV1(dir, file string, set cpuset.Set) error {
	if file == memsFile {
		migrate, err := readInt(dir, "cpuset.memory_migrate")
		if err == nil && migrate == 0 {
			err = writeInt(dir, "cpuset.memory_migrate", 1)
		}
		if err != nil && !isGone(err) {
			return err
		}
	}
	return t.writeSet(dir, file, set)
}

// inheritCpusetV1 gives a group the CPUs and memory nodes of its parent, except those of exclusive groups beside it. v1 starts
// groups with empty sets, lets no process into those, and takes a CPU that goes offline away for good.
func (t *Tree) inheritCpusetV1(dir string) error {
	_, err := t.inheritRecordedV1(dir)
	return err
}

// inheritRecordedV1 is inheritCpusetV1 that returns the steps that restore the sets from before.
func (t *Tree) inheritRecordedV1(dir string) (undo []step, err error) {
	for _, file := range []string{memsFile, cpusFile} {
		now, err := t.readSet(dir, file)
		if err != nil {
			return undo, err
		}
		have, err := t.inheritableV1(dir, file, now)
		if err != nil {
			return undo, err
		}
		if now == have {
			continue
		}
		if err := t.writeSet(dir, file, have); err != nil {
			return undo, err
		}
		undo = append(undo, step{dir, file, now.String() + "\n"}) // the newline: an empty write would be none
	}
	return undo, nil
}

// inheritableV1 returns the part of a resource of the group above that a group can have. now is the present set of the group.
func (t *Tree) inheritableV1(dir, file string, now cpuset.Set) (cpuset.Set, error) {
	above, err := t.readEffective(filepath.Dir(dir), file)
	if err != nil || now == above {
		return above, err
	}
	return t.excludeReservedV1(dir, file, above, now)
}

// errNoSwap marks a case that swapV1 leaves to moveV1.
var errNoSwap = errors.New("no swap: moveV1 decides")

// swapV1 replaces the CPUs of a group, with a single open file and as few system calls as possible: a
// container with exclusive CPUs takes them from hundreds of groups in a row. If it returns false, nothing has changed, and moveV1
// does the change or reports the error.
func (t *Tree) swapV1(dir string, next cpuset.Set) (done bool) {
	if kernelfs.IsInjected() {
		return false
	}
	swap := func(fd int) error { return swapOpenV1(fd, dir, next) }
	if done, err := t.open.use(dir, cpusFile, true, swap); done {
		return err == nil
	}
	fd, err := open(dir+"/"+cpusFile, unix.O_RDWR)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return swap(fd) == nil
}

// swapOpenV1 is swapV1 for an open file.
func swapOpenV1(fd int, dir string, next cpuset.Set) error {
	var content [512]byte // a list that is longer is for moveV1
	n, err := unix.Pread(fd, content[:], 0)
	if err != nil {
		return err
	}
	if n < 1 || n == len(content) {
		return errNoSwap
	}
	old, err := cpuset.Parse(string(content[:n-1]))
	if err != nil || old.IsEmpty() || next.IsEmpty() {
		return errNoSwap
	}
	if old == next {
		return nil
	}
	// Nested groups with less than the whole set keep it, and the kernel refuses to shrink the group below a nested group. If the
	// group grows, nested groups can have to follow. A group that is created from now on is within old, and conflicts only if it is
	// not within next.
	if !next.SubsetOf(&old) {
		if nested, err := subgroups(dir); err != nil || len(nested) > 0 {
			return errNoSwap
		}
	}
	_, err = unix.Pwrite(fd, []byte(next.String()), 0)
	return err
}

// lowerNestedV1 lowers the groups below dir that are allowed more than top,
// since v1 refuses to give their parent less than they have.
func lowerNestedV1(dir string, top cfsBandwidth) (isLowered bool, err error) {
	nested, err := subgroups(dir)
	if err != nil {
		return false, err
	}
	for _, child := range nested {
		now, err := readBandwidthV1(child)
		if err == nil && now.quota == noQuota {
			var isChildLowered bool
			isChildLowered, err = lowerNestedV1(child, top)
			isLowered = isLowered || isChildLowered
		} else if err == nil && now.exceeds(top) {
			isLowered = true
			err = setBandwidthV1(child, now, now.clampTo(top))
		}
		if err != nil && !isGone(err) {
			return isLowered, err
		}
	}
	return isLowered, nil
}

// raiseNestedV1 raises the groups below dir that had the whole quota, by their own setting or since lowerNestedV1. Other groups keep
// their quota.
func raiseNestedV1(dir string, before, after cfsBandwidth) error {
	nested, err := subgroups(dir)
	if err != nil {
		return err
	}
	for _, child := range nested {
		now, err := readBandwidthV1(child)
		if err == nil && now.quota == noQuota {
			err = raiseNestedV1(child, before, after)
		} else if err == nil && before.quota != noQuota && now == now.clampTo(before) {
			err = setBandwidthV1(child, now, now.clampTo(after)) // and so on below it
		}
		if err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// clampTo returns b with as much as top allows, for the period of b.
func (b cfsBandwidth) clampTo(top cfsBandwidth) cfsBandwidth {
	if top.quota == noQuota {
		b.quota = noQuota
		return b
	}
	b.quota = int64(product(top.quota, b.period) / uint64(top.period))
	if minQuota, maxPeriod := bandwidth.MinQuota.Microseconds(), bandwidth.MaxPeriod.Microseconds(); b.quota < minQuota { // less than the kernel takes: the period for which it is enough
		b.quota = minQuota
		b.period = min((minQuota*top.period+top.quota-1)/top.quota, maxPeriod)
	}
	b.burst = min(b.burst, b.quota)
	return b
}
