package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// moveTimeout bounds the time of a move: a container can create nested groups without end, and each takes two system calls or more.
const moveTimeout = 250 * time.Millisecond

// ErrManyGroups: there are more groups nested in a group than can be moved in time.
var ErrManyGroups = errors.New("too many nested groups to move in time")

// moveV1 sets one resource of the cpuset controller in a group and the groups
// nested in it. On v1 a group's set must lie within its parent's at any moment,
// or the kernel answers EBUSY (a child has more) or EACCES (the parent has less): grow
// from the top, shrink from the bottom, and to move, first grow to both.
func moveV1(dir, file string, next cpuset.Set) error {
	old, err := readSet(dir, file)
	if err != nil {
		return err
	}
	return moveFromV1(dir, file, old, next)
}

// moveFromV1 is moveV1 for a group whose set is known.
func moveFromV1(dir, file string, old, next cpuset.Set) error {
	m := moveOfV1{file, time.Now().Add(moveTimeout)}
	return m.move(dir, old, next)
}

// A moveOfV1 is a move of a group with the groups nested in it.
type moveOfV1 struct {
	file  string
	until time.Time
}

func (m *moveOfV1) move(dir string, old, next cpuset.Set) error {
	if old == next {
		return nil
	}
	for try := 1; ; try++ {
		err := m.step(dir, old, next)
		// EBUSY: a group was made or grew below this one since it was listed.
		if !errors.Is(err, unix.EBUSY) || try == retries || time.Now().After(m.until) {
			return err
		}
	}
}

func (m *moveOfV1) step(dir string, old, next cpuset.Set) error {
	nested, err := subgroups(dir)
	if err != nil {
		return err
	}
	if len(nested) == 0 {
		return setV1(dir, m.file, next)
	}
	both := old.Union(next)
	if both != old {
		if err := setV1(dir, m.file, both); err != nil {
			return err
		}
	}
	for _, child := range nested {
		if time.Now().After(m.until) {
			return fmt.Errorf("%s: %w", dir, ErrManyGroups)
		}
		if err := m.follow(child, old, next); err != nil && !gone(err) {
			return err
		}
	}
	if both == next {
		return nil
	}
	return setV1(dir, m.file, next)
}

// follow changes a nested group after its parent: one that had all of the parent's
// goes on to have all; one that had a part keeps what is left of the part, or all if nothing is.
func (m *moveOfV1) follow(dir string, old, next cpuset.Set) error {
	now, err := readSet(dir, m.file)
	if err != nil || now.IsEmpty() {
		return err // empty: not set up yet, and without processes
	}
	want := now.Intersect(next)
	if now == old || want.IsEmpty() {
		want = next
	}
	return m.move(dir, now, want)
}

// setV1 writes one group's set. Memory that has been used already moves with
// the nodes, as v2 does it.
func setV1(dir, file string, set cpuset.Set) error {
	if file == memsFile {
		migrate, err := readInt(dir, "cpuset.memory_migrate")
		if err == nil && migrate == 0 {
			err = writeInt(dir, "cpuset.memory_migrate", 1)
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	return writeSet(dir, file, set)
}

// inheritCpusetV1 gives a group the CPUs and memory nodes of its parent, except those of exclusive groups beside it. v1 starts
// groups with empty sets, lets no process into those, and takes a CPU that goes offline away for good.
func inheritCpusetV1(dir string) error {
	_, err := inheritNotedV1(dir)
	return err
}

// inheritNotedV1 is inheritCpusetV1 that returns the steps that restore the sets from before.
func inheritNotedV1(dir string) (undo []step, err error) {
	for _, file := range []string{memsFile, cpusFile} {
		now, err := readSet(dir, file)
		if err != nil {
			return undo, err
		}
		have, err := inheritableV1(dir, file, now)
		if err != nil {
			return undo, err
		}
		if now == have {
			continue
		}
		if err := writeSet(dir, file, have); err != nil {
			return undo, err
		}
		undo = append(undo, step{dir, file, now.String() + "\n"}) // the newline: an empty write would be none
	}
	return undo, nil
}

// inheritableV1 returns the part of a resource of the group above that a group can have. now is the present set of the group.
func inheritableV1(dir, file string, now cpuset.Set) (cpuset.Set, error) {
	above, err := readEffective(filepath.Dir(dir), file)
	if err != nil || now == above {
		return above, err
	}
	return withoutExclusivesV1(dir, file, above, now)
}
