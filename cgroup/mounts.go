package cgroup

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/candor-project/candor/internal/procfs"
)

// A hierarchy is one tree of groups: a v1 controller's, or the one of v2.
type hierarchy struct {
	mount       string // mount point
	root        string // which group of the hierarchy is mounted there: "/", in a container often its own
	v2          bool
	controllers []string // v1: whose it is ("cpu", "cpuacct", "name=systemd")
	parent      string   // Candor's own group, a path below mount
}

// parseMounts finds the cgroup hierarchies in a mountinfo file. If a hierarchy is mounted several times, it returns
// the mount that shows most of the hierarchy.
func parseMounts(in io.Reader) (found []hierarchy, err error) {
	var relative error
	err = procfs.EachMountIn(in, procfs.MaxHostMounts, []string{" - cgroup"}, func(m *mountinfo.Info) {
		if m.FSType != "cgroup" && m.FSType != "cgroup2" {
			return
		}
		if !filepath.IsAbs(m.Mountpoint) {
			relative = fmt.Errorf("mountinfo: mount point %.60q is not absolute", m.Mountpoint)
			return
		}
		found = addHierarchy(found, m)
	})
	if err == nil {
		err = relative
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

func addHierarchy(found []hierarchy, m *mountinfo.Info) []hierarchy {
	h := hierarchy{mount: m.Mountpoint, root: m.Root, v2: m.FSType == "cgroup2"}
	if !h.v2 {
		for option := range strings.SplitSeq(m.VFSOptions, ",") {
			if option != "rw" && option != "ro" && option != "" {
				h.controllers = append(h.controllers, option)
			}
		}
	}
	same := slices.IndexFunc(found, func(f hierarchy) bool {
		return f.v2 == h.v2 && slices.Equal(f.controllers, h.controllers)
	})
	switch {
	case same < 0:
		found = append(found, h)
	case len(h.root) < len(found[same].root):
		found[same] = h
	}
	return found
}

// has reports whether a v1 hierarchy is that controller's.
func (h *hierarchy) has(controller string) bool {
	return slices.Contains(h.controllers, controller)
}

// parseMembership reads /proc/PID/cgroup: the process's group in each
// hierarchy, by each of its controllers, "" for v2.
func parseMembership(text []byte) (map[string]string, error) {
	groups := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		id, rest, ok := strings.Cut(line, ":")
		controllers, path, ok2 := strings.Cut(rest, ":")
		if !ok || !ok2 || !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("cannot make sense of %.60q", line)
		}
		if id == "0" {
			groups[""] = path
			continue
		}
		for controller := range strings.SplitSeq(controllers, ",") {
			groups[controller] = path
		}
	}
	return groups, nil
}

// dirOf returns the folder of a group that /proc/PID/cgroup names. A group
// that is not below the mount point, since a namespace or the mount hides it,
// is answered with the mount point itself.
func (h *hierarchy) dirOf(path string) string {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return h.mount
	}
	if h.root != "/" {
		rest, ok := strings.CutPrefix(path, h.root)
		if !ok || rest != "" && rest[0] != '/' {
			return h.mount
		}
		path = rest
	}
	return filepath.Join(h.mount, path)
}

// membership picks the process's group in this hierarchy.
func (h *hierarchy) membership(groups map[string]string) (path string, ok bool) {
	if h.v2 {
		path, ok = groups[""]
		return path, ok
	}
	for _, controller := range h.controllers {
		if path, ok = groups[controller]; ok {
			break
		}
	}
	return path, ok
}
