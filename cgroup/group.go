package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cpuset"
)

// A Group is the cgroup of a container: on v1 a folder in each of several hierarchies.
type Group struct {
	tree *Tree
	name string
	base string // last element of the folder's path
	path string // path of a foreign group, relative to the mount points; "" for a group below Candor's parent group
	err  error  // error of CheckName or CheckPath, which every method returns
}

// Group returns Candor's group with the given name. The group need not exist. If CheckName refuses the name, every method of the group
// returns the error of CheckName.
func (t *Tree) Group(name string) *Group {
	g := &Group{tree: t, name: name, base: t.baseOf(name)}
	if err := CheckName(name); err != nil {
		g.err = fmt.Errorf("group %w", err)
	}
	return g
}

// Name returns the group's name.
func (g *Group) Name() string { return g.name }

// baseOf converts the name of a group to the name of its folder: with the systemd driver, the name of a scope. nameOf is the inverse
// function.
func (t *Tree) baseOf(name string) string {
	if t.driver == Systemd {
		return scopeName(name)
	}
	return name
}

func (t *Tree) nameOf(base string) (name string, isOurs bool) {
	name = base
	if t.driver == Systemd {
		if name, isOurs = nameOfScope(base); !isOurs {
			return "", false
		}
	}
	return name, CheckName(name) == nil
}

// dir returns the group's folder in a hierarchy.
func (g *Group) dir(h *hierarchy) string {
	if g.path != "" {
		return h.mount + g.path
	}
	return h.parent + "/" + g.base
}

// dirs returns the group's folders in all hierarchies.
func (g *Group) dirs() []string {
	dirs := make([]string, len(g.tree.all))
	for i, h := range g.tree.all {
		dirs[i] = g.dir(h)
	}
	return dirs
}

// wrap adds the group's name to an error. If the group is missing, the error is ErrNoGroup.
func (g *Group) wrap(err error) error {
	if err == nil {
		return nil
	}
	if isGone(err) {
		if ok, _ := g.exists(); !ok {
			return fmt.Errorf("cgroup %s: %w", g.name, ErrNoGroup)
		}
	}
	return fmt.Errorf("cgroup %s: %w", g.name, err)
}

// Exists reports whether the group has a folder in any hierarchy.
func (g *Group) Exists() (bool, error) {
	if g.err != nil {
		return false, g.err
	}
	ok, err := g.exists()
	if err != nil {
		err = fmt.Errorf("cgroup %s: %w", g.name, err)
	}
	return ok, err
}

func (g *Group) exists() (bool, error) {
	for _, dir := range g.dirs() {
		if ok, err := isGroup(dir); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// Settings returns the group's settings from the kernel's files. The kernel rounds weights: a weight of 1234 becomes 1230 on v2. Mems is
// never empty.
func (g *Group) Settings() (Settings, error) {
	if g.err != nil {
		return Settings{}, g.err
	}
	s, err := g.state()
	if err != nil {
		return Settings{}, g.wrap(err)
	}
	out := Settings{
		CPUs:   s.cpus,
		Mems:   s.mems,
		Period: time.Duration(s.period) * time.Microsecond,
		Burst:  time.Duration(s.burst) * time.Microsecond,
		Weight: g.tree.cpu.weightOf(s.weight),
	}
	if s.quota != noQuota {
		out.Quota = time.Duration(s.quota) * time.Microsecond
	}
	dir := g.dir(g.tree.cpuset)
	if out.CPUs.IsEmpty() {
		out.CPUs, err = g.tree.readEffective(dir, cpusFile)
	}
	if err == nil && out.Mems.IsEmpty() {
		out.Mems, err = g.tree.readEffective(dir, memsFile)
	}
	return out, g.wrap(err)
}

// CPUs returns the content of the group's cpuset.cpus. Reading all Settings would cost several times as much.
func (g *Group) CPUs() (cpuset.Set, error) {
	if g.err != nil {
		return cpuset.Set{}, g.err
	}
	cpus, err := g.tree.readSet(g.dir(g.tree.cpuset), cpusFile)
	return cpus, g.wrap(err)
}

// Effective returns the CPUs and memory nodes that the group's processes can use now. These are the configured sets without the CPUs and
// nodes that the parent group no longer has, such as an offline CPU.
func (g *Group) Effective() (cpus, mems cpuset.Set, err error) {
	if g.err != nil {
		return cpus, mems, g.err
	}
	cpus, mems, err = g.tree.readEffectiveSets(g.dir(g.tree.cpuset))
	return cpus, mems, g.wrap(err)
}

// state holds the kernel's values of a group, in the kernel's units.
type state struct {
	cpus, mems cpuset.Set
	cpuState
}

func (g *Group) state() (s state, err error) {
	dir := g.dir(g.tree.cpuset)
	if s.cpus, err = g.tree.readSet(dir, cpusFile); err != nil {
		return s, err
	}
	if s.mems, err = g.tree.readSet(dir, memsFile); err != nil {
		return s, err
	}
	s.cpuState, err = g.tree.cpu.readCPU(g.dir(g.tree.cpu))
	return s, err
}

// check returns an error for settings that the kernel would refuse or interpret differently. Callers use it before their first change.
func (s Settings) check() error {
	period := s.Period
	if period == 0 {
		period = bandwidth.DefaultPeriod
	}
	switch {
	case s.CPUs.IsEmpty():
		return errors.New("no CPUs: a group needs at least one")
	case period < bandwidth.MinPeriod || period > bandwidth.MaxPeriod:
		return fmt.Errorf("period %v: must be %v to %v", s.Period, bandwidth.MinPeriod, bandwidth.MaxPeriod)
	case s.Quota != 0 && s.Quota < bandwidth.MinQuota:
		return fmt.Errorf("quota %v: must be %v or more, or 0 for none", s.Quota, bandwidth.MinQuota)
	case s.Burst < 0 || s.Burst > s.Quota:
		return fmt.Errorf("burst %v: must be 0 to the quota, %v", s.Burst, s.Quota)
	case s.Weight < 0:
		return fmt.Errorf("weight %d: must be 1 or more (1000 is the kernel's default), or 0 for the default", s.Weight)
	}
	return nil
}

// kernel returns the settings in the units of the kernel's files in a hierarchy.
func (s Settings) kernel(h *hierarchy) state {
	out := state{cpus: s.CPUs, mems: s.Mems}
	out.quota, out.burst, out.period = noQuota, s.Burst.Microseconds(), s.Period.Microseconds()
	if s.Quota != 0 {
		out.quota = s.Quota.Microseconds()
	}
	if s.Period == 0 {
		out.period = bandwidth.DefaultPeriod.Microseconds()
	}
	out.weight = h.kernelWeight(s.Weight)
	return out
}

// isEnded reports whether an error means that a process has ended.
func isEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH)
}

// CheckPath returns an error unless path is valid for a foreign group: relative to the mount points with a leading "/", clean, and not
// "/" itself.
func CheckPath(path string) error {
	bad := !strings.HasPrefix(path, "/") || path == "/" || path != filepath.Clean(path) ||
		slices.Contains(strings.Split(path, "/"), "..") || strings.ContainsAny(path, "\n\x00") || len(path) > unix.PathMax/4
	if bad {
		return fmt.Errorf("cgroup path %.60q: must be a clean path from the mount point, such as /kubepods/pod1/web", path)
	}
	return nil
}

// EngineGroup returns a foreign group, such as the group of a container engine. path is relative to the mount points; see CheckPath. The
// returned Group reads and changes the values of the foreign group, but refuses to create the group, kill its processes or remove it.
func (t *Tree) EngineGroup(name, path string) *Group {
	g := t.Group(name)
	g.path = path
	if g.err == nil {
		g.err = CheckPath(path)
	}
	return g
}

// refuseForeign returns an error if the group is foreign. Methods that create, end or remove a group call it first.
func (g *Group) refuseForeign() error {
	if g.path == "" {
		return nil
	}
	return fmt.Errorf("cgroup %s: %s belongs to a container engine; start and end the container there", g.name, g.path)
}

// usesSystemd reports whether the group is a scope that this package created through systemd.
func (g *Group) usesSystemd() bool { return g.tree.driver == Systemd && g.path == "" }

// parentDir returns the folder of the group's parent in the hierarchy of the cpuset controller.
func (g *Group) parentDir() string { return filepath.Dir(g.dir(g.tree.cpuset)) }

// EnginePath returns the path of the group that a runtime creates for linux.cgroupsPath in the OCI configuration of a container.
// cgroupsPath is a path, or "slice:prefix:name" if the runtime uses systemd.
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
		if strings.HasSuffix(parts[2], ".slice") { // runc uses such a name as the slice of the container
			unit = parts[2]
		}
		path = slice + "/" + unit
	}
	return path, CheckPath(path)
}

// ErrOwnGroup means that an engine would create the group of its container below Candor's parent group. Candor treats every group
// there as one of its own containers. So the engine and Candor would both manage the group, and every operation of Candor would
// change the group's CPUs.
var ErrOwnGroup = errors.New("groups there are Candor's own; choose another parent group (docker run --cgroup-parent, cgroupRoot of the kubelet), or none")

// CheckEngineGroup returns ErrOwnGroup if a runtime could create a forbidden group for a linux.cgroupsPath. The forbidden groups are
// Candor's parent group, its ancestors and descendants, and the children of another state's parent group.
func (t *Tree) CheckEngineGroup(cgroupsPath string) error {
	ownPath := t.cpuset.pathOf(t.cpuset.parent)
	for _, path := range t.runtimePaths(cgroupsPath) {
		switch {
		case isWithin(path, ownPath):
			return fmt.Errorf("cgroup %.100q: in %s: %w", cgroupsPath, ownPath, ErrOwnGroup)
		case isWithin(ownPath, path):
			return fmt.Errorf("cgroup %.100q: it holds %s: %w", cgroupsPath, ownPath, ErrOwnGroup)
		}
		above := filepath.Dir(path)
		owner, err := ownerMark.read(t.cpuset.mount + above)
		if err != nil {
			return fmt.Errorf("cgroup %.100q: cannot read the owner of %s: %w", cgroupsPath, above, err)
		}
		if owner != "" {
			return fmt.Errorf("cgroup %.100q: in %s of the state %s: %w", cgroupsPath, above, owner, ErrOwnGroup)
		}
	}
	return nil
}

// isWithin reports whether a clean path equals the path in the argument above, or is below it.
func isWithin(path, above string) bool {
	return path == above || above == "/" || strings.HasPrefix(path, above+"/")
}

// runtimePaths returns the clean paths of all groups that a runtime could create for a linux.cgroupsPath, with any cgroup driver. If
// cgroupsPath has no leading "/", runc creates the group below its own group, and crun below the mount point. If cgroupsPath is
// empty, the runtime uses the container's name.
func (t *Tree) runtimePaths(cgroupsPath string) []string {
	if cgroupsPath == "" {
		cgroupsPath = "container"
	}
	paths := []string{filepath.Clean("/" + cgroupsPath)}
	// SLICE:PREFIX:NAME names a systemd unit, and systemd does not create units below the runtime's group.
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
