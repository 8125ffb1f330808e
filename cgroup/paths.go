package cgroup

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// PathOf returns the path of the group that a process is in, as OpenUsage and Foreign take
// it: from the mount point of the cpu controller on. "/" is the group at the top.
func (t *Tree) PathOf(pid int) (string, error) {
	dirs, err := t.places(pid)
	if err != nil {
		return "", err
	}
	return t.cpu.pathOf(dirs[slices.Index(t.all, t.cpu)]), nil
}

// Paths returns the paths of all groups below the top that have processes of their own,
// other than threads, a group before those nested in it.
func (t *Tree) Paths() ([]string, error) {
	var paths []string
	err := t.cpu.walk(t.cpu.mount, func(dir string) error {
		isUsed, err := anyIn(dir, func(int) bool { return true })
		if isUsed {
			paths = append(paths, t.cpu.pathOf(dir))
		}
		return err
	})
	return paths, err
}

// walk visits the groups below one. It omits groups that are removed meanwhile and groups whose paths are longer than
// PATH_MAX.
func (h *hierarchy) walk(dir string, visit func(dir string) error) error {
	nested, err := subgroups(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, child := range nested {
		err := visit(child)
		if err == nil {
			err = h.walk(child, visit)
		}
		if err != nil && !gone(err) && !isTooDeep(err) {
			return err
		}
	}
	return nil
}

// pathOf is a folder as a path from the mount point on.
func (h *hierarchy) pathOf(dir string) string {
	if dir == h.mount {
		return "/"
	}
	return strings.TrimPrefix(dir, h.mount)
}
