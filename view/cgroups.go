package view

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/candor-project/candor/cpuset"
)

// A group is the cgroup of a process in the hierarchy of a controller.
type group struct {
	version int      // cgroup version of the hierarchy: 1 or 2
	dirs    []string // directories of the cgroup and of its ancestors that the process can see, in this order
}

// errNoController means that this machine does not have a controller.
var errNoController = errors.New("no cgroup with this controller")

// findGroup returns the cgroup of this process in the hierarchy of a controller. table holds the cgroup mounts.
func findGroup(root fs.FS, table []*mountinfo.Info, controller string) (group, error) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return group{}, err
	}
	g, groupPath := parseCgroup(text, controller)
	if g.version == 0 {
		return group{}, fmt.Errorf("%s: %w", controller, errNoController)
	}
	for _, m := range slices.Backward(table) { // the last mount at a path hides earlier mounts
		matches := m.FSType == "cgroup2" && g.version == 2 ||
			m.FSType == "cgroup" && g.version == 1 && slices.Contains(strings.Split(m.VFSOptions, ","), controller)
		if !matches {
			continue
		}
		if subpath, ok := relativePath(m.Root, groupPath); ok {
			g.dirs = ancestors(m.Mountpoint, subpath)
			return g, nil
		}
	}
	return group{}, fmt.Errorf("the group %s is not visible here", groupPath)
}

// parseCgroup parses /proc/self/cgroup (see cgroups(7)). It returns the version of a controller's hierarchy, and the path of the
// process's cgroup there. If the controller has no v1 hierarchy, the result is the v2 hierarchy. The version is 0 if there is no
// v2 hierarchy either.
func parseCgroup(text []byte, controller string) (g group, groupPath string) {
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(parts) != 3:
		case slices.Contains(strings.Split(parts[1], ","), controller):
			return group{version: 1}, parts[2] // a controller is in a single hierarchy, so version 2 does not have it
		case parts[0] == "0" && parts[1] == "":
			g.version, groupPath = 2, parts[2]
		}
	}
	return g, groupPath
}

// relativePath returns the path of a cgroup relative to the cgroup at the root of a mount. ok is false if the mount does
// not show the cgroup.
func relativePath(root, groupPath string) (subpath string, ok bool) {
	if strings.Contains(groupPath, "/..") || !path.IsAbs(groupPath) {
		return "", false // outside of this cgroup namespace
	}
	if root == "/" || groupPath == root {
		return strings.TrimPrefix(groupPath, root), true
	}
	return strings.CutPrefix(groupPath, root+"/")
}

// ancestors returns a directory below a mount point, and the directories above it up to the mount point.
func ancestors(mountPoint, subpath string) []string {
	var dirs []string
	for dir := path.Join(mountPoint, subpath); ; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == path.Clean(mountPoint) || dir == "/" || dir == "." {
			return dirs
		}
	}
}

// observeCPUSet reads the effective CPUs of the process's cpuset.
func observeCPUSet(root fs.FS, table []*mountinfo.Info) Source {
	s := Source{Name: SourceCPUSet, Role: Grant}
	g, err := findGroup(root, table, "cpuset")
	if err != nil {
		s.Error = errorText(err)
		return s
	}
	name := "cpuset.cpus.effective"
	if g.version == 1 {
		name = "cpuset.effective_cpus"
	}
	// On version 2 a cgroup without the controller does not have the file; then the nearest ancestor with the file applies.
	for _, dir := range g.dirs {
		s.Path = path.Join(dir, name)
		text, err := fs.ReadFile(root, strings.TrimPrefix(s.Path, "/"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			s.CPUs, err = parseOnline(text)
		}
		if err != nil {
			s.Error = errorText(err)
		}
		s.Count = s.CPUs.Count()
		return s
	}
	s.Path, s.Error = "", "no "+name+" on the way up"
	return s
}

// observeQuota reads the tightest quota among the process's cgroup and its ancestors.
func observeQuota(root fs.FS, table []*mountinfo.Info) Source {
	s := Source{Name: SourceQuota, Role: Grant}
	g, err := findGroup(root, table, "cpu")
	if errors.Is(err, errNoController) {
		return s // no quota
	}
	if err != nil {
		s.Error = errorText(err)
		return s
	}
	for _, dir := range g.dirs {
		milli, file, err := readQuota(root, g.version, dir)
		if err != nil {
			s.Error, s.Path = errorText(err), file
			return s
		}
		if milli > 0 && (s.QuotaMilli == 0 || milli < s.QuotaMilli) {
			s.QuotaMilli, s.Path = milli, file
		}
	}
	s.Count = (s.QuotaMilli + 999) / 1000
	return s
}

// readQuota returns the quota of the cgroup in dir in milli-CPU, or 0 if there is no quota. file is the path of the file
// that it has read.
func readQuota(root fs.FS, version int, dir string) (milli int, file string, err error) {
	var text string
	if version == 2 {
		file = path.Join(dir, "cpu.max")
		text = string(readText(root, file))
	} else {
		file = path.Join(dir, "cpu.cfs_quota_us")
		quota, period := readText(root, file), readText(root, path.Join(dir, "cpu.cfs_period_us"))
		text = strings.Trim(string(quota), "\n") + " " + string(period)
	}
	if strings.TrimSpace(text) == "" {
		return 0, file, nil // the root cgroup, or a cgroup without the controller
	}
	milli, err = parseQuota(text)
	return milli, file, err
}

// parseQuota parses "QUOTA PERIOD" in microseconds. It returns the quota in milli-CPU, rounded to the nearest integer, but at least 1. It
// returns 0 for the quotas "max" and "-1", which mean no limit.
func parseQuota(text string) (milli int, err error) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return 0, fmt.Errorf("%.40q is not a quota and a period", text)
	}
	if fields[0] == "max" || fields[0] == "-1" {
		return 0, nil
	}
	quota, err := strconv.ParseUint(fields[0], 10, 50)
	if err != nil {
		return 0, fmt.Errorf("quota %.40q is not a number of microseconds", fields[0])
	}
	period, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil || period == 0 {
		return 0, fmt.Errorf("period %.40q is not a number of microseconds", fields[1])
	}
	maxMilli := uint64(cpuset.Max * 1000)
	return int(min(max((quota*1000+period/2)/period, 1), maxMilli)), nil
}
