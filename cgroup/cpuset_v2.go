package cgroup

import (
	"slices"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// moveV2 sets a resource of the cpuset controller in a group. On v2 the kernel cuts nested groups to their parent's set. Only nested
// groups with an explicit copy of the parent's whole set follow, so that they do not stay small when the parent grows.
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
	f := followers{tree: t, file: file, old: old, next: next, groups: maxQuickGroups}
	return f.move(dir)
}

// followers are the nested groups that were given all of their parent's CPUs or memory nodes.
type followers struct {
	tree      *Tree
	file      string
	old, next cpuset.Set
	groups    int // that it may still inspect: the move of another container waits for it
}

func (f *followers) move(dir string) error {
	nested, err := subgroups(dir)
	if err != nil {
		return err
	}
	file, old, next := f.file, f.old, f.next
	for _, child := range nested {
		if f.groups == 0 {
			return nil // the kernel limits nested groups to the CPUs of their parent
		}
		f.groups--
		now, err := f.tree.readSet(child, file)
		if err == nil && now == old {
			err = f.tree.writeSet(child, file, next)
		}
		if err == nil && (now == old || now.IsEmpty()) {
			err = f.move(child)
		}
		if err != nil && !isGone(err) && !isTooDeep(err) { // gone: the group is removed, or has no such controller
			return err
		}
	}
	return nil
}

const subtreeFile = "cgroup.subtree_control"

// enableControllersV2 gives the groups below dir the controllers that they lack, and returns those.
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
