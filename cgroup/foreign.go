package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckPath says what is wrong with the path of a group that somebody else makes: it
// starts at the mount points, is clean and names no group at the top itself.
func CheckPath(path string) error {
	bad := !strings.HasPrefix(path, "/") || path == "/" || path != filepath.Clean(path) ||
		slices.Contains(strings.Split(path, "/"), "..") || strings.ContainsAny(path, "\n\x00") || len(path) > unix.PathMax/4
	if bad {
		return fmt.Errorf("cgroup path %.60q: want a clean path from the mount point, such as /kubepods/pod1/web", path)
	}
	return nil
}

// Foreign names a group that somebody else makes and removes, such as a container
// engine: path is from the mount points on. Candor reads it and gives it
// settings, by the kernel's files alone; to create, end or remove it is refused.
func (t *Tree) Foreign(name, path string) *Group {
	g := t.Group(name)
	g.path = path
	if g.err == nil {
		g.err = CheckPath(path)
	}
	return g
}

// notOurs refuses to make, end or remove a group that is somebody else's.
func (g *Group) notOurs() error {
	if g.path == "" {
		return nil
	}
	return fmt.Errorf("cgroup %s: %s is a container engine's: want it started and ended there", g.name, g.path)
}

// viaSystemd reports whether systemd has to be told of the group's settings.
func (g *Group) viaSystemd() bool { return g.tree.driver == Systemd && g.path == "" }

// parentDir is the folder of the group above, in the hierarchy of the cpusets.
func (g *Group) parentDir() string { return filepath.Dir(g.dir(g.tree.cpuset)) }

// EnginePath returns the path of the group that a runtime makes for the cgroupsPath of
// a container's specification: a path, or as systemd wants it "slice:prefix:name".
func EnginePath(cgroupsPath string) (string, error) {
	path := cgroupsPath
	if parts := strings.Split(cgroupsPath, ":"); len(parts) == 3 && !strings.HasPrefix(cgroupsPath, "/") {
		slice, err := expandSlice(parts[0])
		if err != nil {
			return "", err
		}
		unit := parts[2] + ".scope"
		if parts[1] != "" {
			unit = parts[1] + "-" + unit
		}
		if strings.HasSuffix(parts[2], ".slice") { // a slice itself, as runc takes it
			unit = parts[2]
		}
		path = slice + "/" + unit
	}
	return path, CheckPath(path)
}
