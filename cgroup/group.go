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

// A Group is the control group of a container: on v1 a directory in each of several hierarchies.
type Group struct {
	tree *Tree
	name string
	base string // the name of its folder
	path string // from the mount points on, of a foreign group; else ""
	err  error  // set if the name is invalid
}

// Group names a group, which need not exist. With a name that CheckName refuses
// every method returns its error.
func (t *Tree) Group(name string) *Group {
	g := &Group{tree: t, name: name, base: t.baseOf(name)}
	if err := CheckName(name); err != nil {
		g.err = fmt.Errorf("group %w", err)
	}
	return g
}

// Name is the group's name.
func (g *Group) Name() string { return g.name }

// baseOf is the folder that a group of that name has; nameOf is the reverse.
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

// dir is the group's folder in a hierarchy.
func (g *Group) dir(h *hierarchy) string {
	if g.path != "" {
		return h.mount + g.path
	}
	return h.parent + "/" + g.base
}

// dirs are all of its folders.
func (g *Group) dirs() []string {
	dirs := make([]string, len(g.tree.all))
	for i, h := range g.tree.all {
		dirs[i] = g.dir(h)
	}
	return dirs
}

// wrap adds the group's name to an error, and distinguishes a missing group.
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

// Exists reports whether the group is there, in any of its hierarchies.
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

// Settings returns the values in the kernel, in its own steps: a weight of 1234 becomes 1230 on v2. Mems is never empty.
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

// CPUs returns the group's CPUs alone, as they were set: to read all of its Settings costs several times as much.
func (g *Group) CPUs() (cpuset.Set, error) {
	if g.err != nil {
		return cpuset.Set{}, g.err
	}
	cpus, err := g.tree.readSet(g.dir(g.tree.cpuset), cpusFile)
	return cpus, g.wrap(err)
}

// Effective returns the CPUs and memory nodes that the group's processes can use now: the configured set without the parts that the
// parent has lost, such as an offline CPU.
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

// check refuses settings that the kernel would refuse, or take for something
// else, before anything is changed.
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

// kernel returns the settings in the kernel's units.
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

// isEnded reports an error of a process that has ended.
func isEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH)
}

// CheckPath checks the path of a foreign group: it starts at the mount points, is clean, and is not the root.
func CheckPath(path string) error {
	bad := !strings.HasPrefix(path, "/") || path == "/" || path != filepath.Clean(path) ||
		slices.Contains(strings.Split(path, "/"), "..") || strings.ContainsAny(path, "\n\x00") || len(path) > unix.PathMax/4
	if bad {
		return fmt.Errorf("cgroup path %.60q: must be a clean path from the mount point, such as /kubepods/pod1/web", path)
	}
	return nil
}

// EngineGroup returns a foreign group, such as the group of a container engine: path starts at the mount points. Candor reads and
// changes it by the kernel's files alone; it refuses to create, end or remove it.
func (t *Tree) EngineGroup(name, path string) *Group {
	g := t.Group(name)
	g.path = path
	if g.err == nil {
		g.err = CheckPath(path)
	}
	return g
}

// refuseForeign refuses to create, end or remove a foreign group.
func (g *Group) refuseForeign() error {
	if g.path == "" {
		return nil
	}
	return fmt.Errorf("cgroup %s: %s belongs to a container engine; start and end the container there", g.name, g.path)
}

// usesSystemd reports whether systemd manages the settings of the group.
func (g *Group) usesSystemd() bool { return g.tree.driver == Systemd && g.path == "" }

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

// ErrOwnGroup refuses a container whose engine would create its group below Candor's parent group. Candor treats every group there
// as a container: a group of an engine would be managed twice, and moved by every operation.
var ErrOwnGroup = errors.New("groups there are Candor's own; choose another parent group (docker run --cgroup-parent, cgroupRoot of the kubelet), or none")

// CheckEngineGroup is ErrOwnGroup if a runtime may make a group, for the cgroupsPath of a container's specification, that
// is Candor's parent group, lies below it or holds it, or that lies directly below the parent group of another state.
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
		if owner, err := ownerMark.read(t.cpuset.mount + above); err != nil || owner != "" {
			return fmt.Errorf("cgroup %.100q: in %s of the state %s: %w", cgroupsPath, above, owner, ErrOwnGroup)
		}
	}
	return nil
}

// isWithin reports whether a clean path equals another path, or is below it.
func isWithin(path, above string) bool {
	return path == above || above == "/" || strings.HasPrefix(path, above+"/")
}

// runtimePaths returns the clean paths of all groups that a runtime can create for a cgroupsPath, with any driver. A path without a
// leading "/" is relative to the group of the runtime for runc, and to the mount point for crun. An empty path is a group with the
// name of the container.
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
