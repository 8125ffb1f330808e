package cgroup

import (
	"slices"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// moveV2 sets a resource of the cpuset controller in a group. On v2 the kernel limits nested groups to their parent's set. moveV2 changes
// only the nested groups that have the same set as the group, so that they also get the CPUs that the group gets.
func (t *Tree) moveV2(dir, file string, next cpuset.Set) error {
	old, err := t.readSet(dir, file)
	if err != nil || old == next {
		return err
	}
	if err := t.writeSet(dir, file, next); err != nil {
		return err
	}
	if old.IsEmpty() {
		return nil
	}
	m := nestedMoveV2{tree: t, file: file, old: old, next: next, remainingGroups: maxQuickGroups}
	return m.moveBelow(dir)
}

// A nestedMoveV2 changes the set of nested groups from old to next. Groups with another set stay unchanged.
type nestedMoveV2 struct {
	tree            *Tree
	file            string
	old, next       cpuset.Set
	remainingGroups int // number of groups that moveBelow may still read; bounded because other containers wait for the change
}

// moveBelow changes the groups nested in the group in dir.
func (m *nestedMoveV2) moveBelow(dir string) error {
	nested, err := subgroups(dir)
	if err != nil {
		return err
	}
	for _, child := range nested {
		if m.remainingGroups == 0 {
			return nil // the kernel limits the unchanged groups to the set of their parent
		}
		m.remainingGroups--
		now, err := m.tree.readSet(child, m.file)
		if err == nil && now == m.old {
			err = m.tree.writeSet(child, m.file, m.next)
		}
		if err == nil && (now == m.old || now.IsEmpty()) {
			err = m.moveBelow(child)
		}
		if err != nil && !isGone(err) && !isTooDeep(err) { // isGone: the group was removed, or lacks the controller
			return err
		}
	}
	return nil
}

const subtreeFile = "cgroup.subtree_control"

// enableControllersV2 enables controllers for the groups directly below dir. It returns the controllers that were not enabled before.
func enableControllersV2(dir string, controllers []string) (enabled []string, err error) {
	content, err := read(dir, subtreeFile)
	if err != nil {
		return nil, err
	}
	present := strings.Fields(string(content))
	missing := slices.DeleteFunc(slices.Clone(controllers), func(c string) bool { return slices.Contains(present, c) })
	if len(missing) == 0 {
		return nil, nil
	}
	return missing, write(dir, subtreeFile, "+"+strings.Join(missing, " +"))
}
