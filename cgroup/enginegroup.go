package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrOwnGroup refuses a container whose engine would make its group among Candor's own. Candor takes each group below its
// parent group for a container: one that an engine made would be managed twice, and moved by every operation.
var ErrOwnGroup = errors.New("groups there are Candor's own; choose another parent group (docker run --cgroup-parent, cgroupRoot of the kubelet), or none")

// CheckEngineGroup is ErrOwnGroup if a runtime may make a group, for the cgroupsPath of a container's specification, that
// is Candor's parent group, lies below it or holds it, or that lies directly below the parent group of another state.
func (t *Tree) CheckEngineGroup(cgroupsPath string) error {
	own := t.cpuset.pathOf(t.cpuset.parent)
	for _, path := range t.runtimePaths(cgroupsPath) {
		switch {
		case isWithin(path, own):
			return fmt.Errorf("cgroup %.100q: in %s: %w", cgroupsPath, own, ErrOwnGroup)
		case isWithin(own, path):
			return fmt.Errorf("cgroup %.100q: it holds %s: %w", cgroupsPath, own, ErrOwnGroup)
		}
		above := filepath.Dir(path)
		if owner, err := ownerMark.read(t.cpuset.mount + above); err != nil || owner != "" {
			return fmt.Errorf("cgroup %.100q: in %s of the state %s: %w", cgroupsPath, above, owner, ErrOwnGroup)
		}
	}
	return nil
}

// isWithin reports whether a clean path is another one, or below it.
func isWithin(path, above string) bool {
	return path == above || above == "/" || strings.HasPrefix(path, above+"/")
}

// runtimePaths returns the clean paths of all groups that a runtime may make for a cgroupsPath, whatever its driver is. A
// path that does not begin with "/" is relative to the group of the runtime for runc, and to the mount point for crun; an
// empty one stands for a group with the name of the container.
func (t *Tree) runtimePaths(cgroupsPath string) []string {
	if cgroupsPath == "" {
		cgroupsPath = "container"
	}
	paths := []string{filepath.Clean("/" + cgroupsPath)}
	// SLICE:PREFIX:NAME is the name of a systemd unit, which is in no group of the runtime.
	if !strings.HasPrefix(cgroupsPath, "/") && strings.Count(cgroupsPath, ":") != 2 {
		if at, err := t.PathOf(os.Getpid()); err == nil {
			paths = append(paths, filepath.Join(at, paths[0]))
		}
	}
	if strings.HasPrefix(cgroupsPath, ":") { // runc's default
		cgroupsPath = "system.slice" + cgroupsPath
	}
	if path, err := EnginePath(cgroupsPath); err == nil {
		paths = append(paths, path)
	}
	return paths
}
