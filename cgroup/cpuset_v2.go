package cgroup

import (
	"slices"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// moveV2 sets one resource of the cpuset controller in a group. On v2 nested
// groups need nothing: what they have is cut to what their parent has. Only those that were given
// all of the parent's explicitly follow, so that they don't stay small when it grows.
func moveV2(dir, file string, next cpuset.Set) error {
	old, err := readSet(dir, file)
	if err != nil || old == next {
		return err
	}
	if err := writeSet(dir, file, next); err != nil {
		return err
	}
	if old.IsEmpty() {
		return nil
	}
	return followersV2(dir, file, old, next)
}

func followersV2(dir, file string, old, next cpuset.Set) error {
	nested, err := subgroups(dir)
	if err != nil {
		return err
	}
	for _, child := range nested {
		now, err := readSet(child, file)
		if err == nil && now == old {
			err = writeSet(child, file, next)
		}
		if err == nil && (now == old || now.IsEmpty()) {
			err = followersV2(child, file, old, next)
		}
		if err != nil && !gone(err) { // gone: the group, or it is without the controller
			return err
		}
	}
	return nil
}

// enableControllersV2 gives the groups below dir the controllers that they lack.
func enableControllersV2(dir string, controllers []string) error {
	has, err := read(dir, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	enabled := strings.Fields(string(has))
	missing := ""
	for _, c := range controllers {
		if !slices.Contains(enabled, c) {
			missing += " +" + c
		}
	}
	if missing == "" {
		return nil
	}
	return write(dir, "cgroup.subtree_control", missing[1:])
}
