package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// A file of the kernel in a group's folder has a name from kernelFiles, or a name that begins with a prefix from kernelPrefixes and a
// dot.
var (
	kernelFiles    = []string{"tasks", "notify_on_release", "release_agent"}
	kernelPrefixes = []string{"cgroup", "cpu", "cpuset", "cpuacct", "freezer", "memory", "io", "blkio", "pids", "hugetlb",
		"rdma", "misc", "dmem", "devices", "net_cls", "net_prio", "perf_event", "irq", "debug"}
)

// CheckName returns an error unless name is valid as the name of a group, which is also the name of the group's folder.
func CheckName(name string) error {
	head, _, hasDot := strings.Cut(name, ".")
	switch {
	case !namePattern.MatchString(name):
		return fmt.Errorf("name %s: must be 1 to 64 letters, digits, '_', '.' and '-', the first a letter or digit", quoteName(name))
	case slices.Contains(kernelFiles, name), hasDot && slices.Contains(kernelPrefixes, head):
		return fmt.Errorf("name %q: a file of the kernel has this name; "+
			"must not be tasks, notify_on_release or release_agent, or begin with cpu., cgroup. or another controller", name)
	}
	return nil
}

// invalidInNames matches the characters that a name cannot have.
var invalidInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// CleanName replaces the characters that a name cannot have with "-", and removes leading characters with which a name cannot begin. The
// result can still be empty, too long or the name of a kernel file.
func CleanName(text string) string {
	return strings.TrimLeft(invalidInNames.ReplaceAllString(text, "-"), "_.-")
}

// quoteName quotes a name for an error, at most its first 64 bytes.
func quoteName(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return fmt.Sprintf("%q", name)
}

// OCIPath returns the linux.cgroupsPath (OCI configuration) with which a runtime uses Candor's group of the given name. The value is a
// path below the mount points, or with the systemd driver "slice:prefix:name".
func (t *Tree) OCIPath(name string) string {
	if t.driver == Systemd {
		return t.parent + ":candor:" + name
	}
	return t.parent + "/" + name
}

// PathOf returns the path of the group that a process is in, relative to the mount point of the cpu controller. OpenUsage and EngineGroup
// accept this path, except "/", which is the root group.
func (t *Tree) PathOf(pid int) (string, error) {
	dirs, err := t.groupDirsOf(pid)
	if err != nil {
		return "", err
	}
	return t.cpu.pathOf(dirs[slices.Index(t.all, t.cpu)]), nil
}

// Paths returns the paths of all groups below the root group that contain processes directly. v2 groups that contain only threads are
// omitted. A group precedes the groups nested in it.
func (t *Tree) Paths() ([]string, error) {
	var paths []string
	err := t.cpu.walk(t.cpu.mount, func(dir string) error {
		isUsed, err := anyProcess(dir, func(int) bool { return true })
		if isUsed {
			paths = append(paths, t.cpu.pathOf(dir))
		}
		return err
	})
	return paths, err
}

// GroupIDs returns the IDs of a group and of the groups nested in it, in the hierarchy of the cpu controller. The ID of a group is the
// inode number of its folder (kernfs_ino in include/linux/kernfs.h); BPF programs read it as cgroup->kn->id. GroupIDs omits nested groups
// beyond the first 16,384.
func (t *Tree) GroupIDs(path string) (ids []uint64, err error) {
	if err := t.checkExists(path); err != nil {
		return nil, err
	}
	add := func(dir string) error {
		var st unix.Stat_t
		err := unix.Stat(dir, &st)
		if err == nil {
			ids = append(ids, st.Ino)
		}
		return err
	}
	if err := add(t.cpu.mount + path); err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", path, err)
	}
	err = t.cpu.walk(t.cpu.mount+path, func(dir string) error {
		if len(ids) > maxGroups {
			return ErrTooMany
		}
		return add(dir)
	})
	if errors.Is(err, ErrTooMany) {
		err = nil
	}
	return ids, err
}

// walk calls visit for each group nested in a group. It omits groups that are removed during the walk, and groups with paths longer
// than PATH_MAX.
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
		if err != nil && !isGone(err) && !isTooDeep(err) {
			return err
		}
	}
	return nil
}

// pathOf returns the path of a folder relative to the mount point: "/" for the mount point, else a path that begins with "/".
func (h *hierarchy) pathOf(dir string) string {
	if dir == h.mount {
		return "/"
	}
	return strings.TrimPrefix(dir, h.mount)
}

// CPUsAt returns the CPUs that the processes of a group may use. If the group does not have the cpuset controller, CPUsAt returns the CPUs
// of the nearest ancestor that has this controller.
func (t *Tree) CPUsAt(path string) (cpuset.Set, error) {
	if err := t.checkExists(path); err != nil {
		return cpuset.Set{}, err
	}
	for {
		cpus, err := t.readEffective(t.cpuset.mount+path, cpusFile)
		if !errors.Is(err, fs.ErrNotExist) || path == "/" {
			return cpus, err
		}
		path = filepath.Dir(path)
	}
}

// checkExists returns an error for an invalid path, and ErrNoGroup for a missing group.
func (t *Tree) checkExists(path string) error {
	err := CheckPath(path)
	if err != nil {
		return err
	}
	ok, err := isGroup(t.cpu.mount + path)
	if err == nil && !ok {
		err = fmt.Errorf("cgroup %s: %w", path, ErrNoGroup)
	}
	return err
}
