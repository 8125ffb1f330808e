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

// moveTimeout bounds the time of a move, which is a change of the CPUs or memory nodes of a group and its nested groups. A bound is
// necessary, because a container can create nested groups without end, and each nested group takes two system calls or more.
const moveTimeout = 250 * time.Millisecond

// ErrManyGroups means that a group has too many nested groups to move them within moveTimeout.
var ErrManyGroups = errors.New("too many nested groups to move in time")

// moveV1 sets a resource of the cpuset controller in a group and its nested groups. On v1 the set of a group must be a subset of its
// parent's set at any moment. Otherwise the kernel returns EBUSY (a child has more) or EACCES (the parent has less). So moveV1 grows the
// sets from the top to the union of old and new set, and then shrinks them from the bottom to the new set.
func (t *Tree) moveV1(dir, file string, next cpuset.Set) error {
	old, err := t.readSet(dir, file)
	if err != nil {
		return err
	}
	return t.moveFromV1(dir, file, old, next)
}

// moveFromV1 is like moveV1, for a caller that knows the group's present set.
func (t *Tree) moveFromV1(dir, file string, old, next cpuset.Set) error {
	m := cpusetMoveV1{t, file, time.Now().Add(moveTimeout)}
	return m.move(dir, old, next)
}

// A cpusetMoveV1 is a move of a group and its nested groups on v1.
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
		err := m.tryMove(dir, old, next)
		// EBUSY: a group below this group was created, or grew, after the listing.
		if !errors.Is(err, unix.EBUSY) || try == retries || time.Now().After(m.deadline) {
			return err
		}
	}
}

func (m *cpusetMoveV1) tryMove(dir string, old, next cpuset.Set) error {
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
		if err := m.moveNested(child, old, next); err != nil && !isGone(err) {
			return err
		}
	}
	if union == next {
		return nil
	}
	return m.tree.setCpusetV1(dir, m.file, next)
}

// moveNested moves a nested group whose parent changes from old to next. If the nested group has the set old, it gets next. Otherwise it
// keeps the part of its set that is in next, or gets next if there is no such part.
func (m *cpusetMoveV1) moveNested(dir string, old, next cpuset.Set) error {
	now, err := m.tree.readSet(dir, m.file)
	if err != nil || now.IsEmpty() {
		return err // an empty cpuset is not set up yet, and has no processes
	}
	wanted := now.Intersect(next)
	if now == old || wanted.IsEmpty() {
		wanted = next
	}
	return m.move(dir, now, wanted)
}

// setCpusetV1 writes the set of a group. Before it changes memory nodes, it sets cpuset.memory_migrate so that used memory migrates to
// the new nodes, as on v2.
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

// inheritCpusetV1 gives a group the CPUs and memory nodes of its parent, except the CPUs and nodes of exclusive siblings. This is
// necessary because a new group on v1 has empty sets and cannot have processes, and because a group loses an offline CPU for good.
func (t *Tree) inheritCpusetV1(dir string) error {
	_, err := t.inheritRecordedV1(dir)
	return err
}

// inheritRecordedV1 is like inheritCpusetV1, and also returns the steps that restore the former sets.
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
		undo = append(undo, step{dir, file, now.String() + "\n"}) // with a newline, because write(2) of 0 bytes changes nothing
	}
	return undo, nil
}

// inheritableV1 returns the part of the parent's resource that the group in dir can have. now is the group's present set.
func (t *Tree) inheritableV1(dir, file string, now cpuset.Set) (cpuset.Set, error) {
	above, err := t.readEffective(filepath.Dir(dir), file)
	if err != nil || now == above {
		return above, err
	}
	return t.excludeReservedV1(dir, file, above, now)
}

// errNoSwap means that a change needs more than the single write of swapV1, so the caller must use moveV1.
var errNoSwap = errors.New("no swap: moveV1 decides")

// swapV1 changes the CPUs of a group in as few system calls as possible, because the start of a container with exclusive CPUs takes these
// CPUs from hundreds of groups. If swapV1 returns false, nothing has changed, and the caller must use moveV1, which makes the change or
// returns the error.
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

// swapOpenV1 does the work of swapV1 with an open cpuset.cpus of the group in dir.
func swapOpenV1(fd int, dir string, next cpuset.Set) error {
	var content [512]byte // moveV1 handles longer lists
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
	// If the group gets a new CPU, moveV1 must change its nested groups. If the group only shrinks, one write suffices: the kernel refuses
	// the write if a nested group has a CPU outside next. This also holds for nested groups that are created from now on, because they have
	// subsets of old.
	if !next.SubsetOf(&old) {
		if nested, err := subgroups(dir); err != nil || len(nested) > 0 {
			return errNoSwap
		}
	}
	_, err = unix.Pwrite(fd, []byte(next.String()), 0)
	return err
}

// lowerNestedV1 limits the bandwidth of nested groups to top, because v1 refuses to lower the bandwidth of a group below the bandwidth
// of a nested group. dir is the group whose bandwidth the caller wants to lower to top.
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

// raiseNestedV1 raises the quotas of the nested groups whose bandwidth equals the former bandwidth of the group in dir. A nested group can
// have this bandwidth because lowerNestedV1 has lowered it, or as its own setting. Other nested groups keep their quotas. before and after
// are the bandwidths of the group in dir.
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
			err = setBandwidthV1(child, now, now.clampTo(after)) // also raises the groups nested in child
		}
		if err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// clampTo returns b with a quota that gives the same ratio of quota to period as top has.
func (b cfsBandwidth) clampTo(top cfsBandwidth) cfsBandwidth {
	if top.quota == noQuota {
		b.quota = noQuota
		return b
	}
	b.quota = int64(product(top.quota, b.period) / uint64(top.period))
	if minQuota, maxPeriod := bandwidth.MinQuota.Microseconds(), bandwidth.MaxPeriod.Microseconds(); b.quota < minQuota {
		b.quota = minQuota // the kernel refuses a lower quota; a longer period keeps the ratio
		b.period = min((minQuota*top.period+top.quota-1)/top.quota, maxPeriod)
	}
	b.burst = min(b.burst, b.quota)
	return b
}
