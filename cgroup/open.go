package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
)

// A Tree is Candor's groups on this machine.
type Tree struct {
	driver             Driver
	parent             string
	owner              string
	proc               string // the proc file system in use
	cpu                *hierarchy
	cpuset             *hierarchy
	acct               *hierarchy   // v1's cpuacct; nil where v2 counts
	reaper             *hierarchy   // where all of a group's processes can be killed at once: v2, or v1's freezer; or nil
	all                []*hierarchy // each of the above once
	foreignHierarchies []*hierarchy // in which Candor makes no groups, but container runtimes do
	bus                *bus         // systemd driver
	open               openFiles
	deadline           atomic.Int64 // of SetDeadline, in nanoseconds; 0: no bound

	parentUndo atomic.Pointer[steps] // of RestoreParent
	newSlice   atomic.Bool           // the same with systemd: Candor's slice was not there before

	warmUntil   atomic.Int64 // end of WarmMoves, in nanoseconds
	isWarming   atomic.Bool  // set while selfMove runs; it uses these:
	ownDir      string       // folder of this process's group; "": not searched for yet
	isOwnHidden bool         // its own group is not visible
}

// Open finds the control groups. It changes nothing. Each error is a single line: ErrNoCPU, ErrNoCpuset, ErrNotDelegated, or an
// invalid option.
func Open(o Options) (*Tree, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	found, err := findHierarchies(o.Root)
	if err != nil {
		return nil, err
	}
	t := &Tree{proc: filepath.Join(o.Root, "proc"), owner: o.Owner}
	if err := t.chooseHierarchies(found); err != nil {
		return nil, err
	}
	if err := t.setDriver(o); err != nil {
		return nil, err
	}
	if o.ReadOnly {
		return t, nil
	}
	return t, t.checkWritable()
}

// Version is 2 where both CPU controllers are on cgroup v2, else 1.
func (t *Tree) Version() int {
	if t.cpu.v2 && t.cpuset.v2 {
		return 2
	}
	return 1
}

// Driver returns the driver of the groups: Cgroupfs or Systemd.
func (t *Tree) Driver() Driver { return t.driver }

// Close closes the cached files, and the connection to systemd if there is one.
func (t *Tree) Close() error {
	t.KeepOpen(0)
	if t.bus != nil {
		t.bus.close()
	}
	return nil
}

// findHierarchies reads which hierarchies are mounted.
func findHierarchies(root string) ([]hierarchy, error) {
	process := "self"
	if root != "/" {
		process = "1" // the mounts of this process do not belong to that root
	}
	file := filepath.Join(root, "proc", process, "mountinfo")
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	found, err := parseMounts(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i := range found {
		found[i].mount = filepath.Join(root, found[i].mount)
	}
	return found, nil
}

// chooseHierarchies selects the hierarchy of each controller. The kernel attaches a controller to a single hierarchy at a time.
func (t *Tree) chooseHierarchies(found []hierarchy) error {
	byController := func(controller string) *hierarchy {
		for i := range found {
			h := &found[i]
			if !h.v2 && h.hasController(controller) {
				return h
			}
			if h.v2 {
				offered, _ := read(h.mount, "cgroup.controllers")
				if slices.Contains(strings.Fields(string(offered)), controller) {
					return h
				}
			}
		}
		return nil
	}
	const remedy = "mount it (cgroup v2 on /sys/fs/cgroup), or enable it with the kernel's options or, in a service, Delegate="
	if t.cpuset = byController("cpuset"); t.cpuset == nil {
		return fmt.Errorf("%w in the cgroups of this machine; %s", ErrNoCpuset, remedy)
	}
	if t.cpu = byController("cpu"); t.cpu == nil {
		return fmt.Errorf("%w in the cgroups of this machine; %s", ErrNoCPU, remedy)
	}
	if !t.cpu.v2 {
		t.acct = byController("cpuacct")
	}
	switch {
	case t.cpuset.v2:
		t.reaper = t.cpuset
	case t.cpu.v2:
		t.reaper = t.cpu
	default:
		t.reaper = byController("freezer")
	}
	for _, h := range []*hierarchy{t.cpu, t.cpuset, t.acct, t.reaper} {
		if h != nil && !slices.Contains(t.all, h) {
			t.all = append(t.all, h)
		}
	}
	for i := range found {
		if !slices.Contains(t.all, &found[i]) {
			t.foreignHierarchies = append(t.foreignHierarchies, &found[i])
		}
	}
	return nil
}

// setDriver decides the driver and where the parent group is.
func (t *Tree) setDriver(o Options) error {
	booted := o.Root == "/" && t.Version() == 2 && runsSystemd()
	root := os.Geteuid() == 0 // other users cannot use systemd for groups
	switch o.Driver {
	case Cgroupfs, Systemd:
		t.driver = o.Driver
	case Auto, "":
		t.driver = Cgroupfs
		if booted && root && (o.Parent == "" || strings.HasSuffix(o.Parent, ".slice")) {
			t.driver = Systemd
		}
	default:
		return fmt.Errorf("cgroup driver %q: must be auto, cgroupfs or systemd", o.Driver)
	}
	t.parent = o.Parent
	var path string
	var err error
	if t.driver == Systemd {
		if !booted {
			return errors.New("cgroup driver systemd: systemd does not run this machine on cgroup v2; use the driver cgroupfs")
		}
		if t.parent == "" {
			t.parent = "candor.slice"
		}
		t.bus = &bus{remainingTime: t.remainingTime}
		path, err = expandSlice(t.parent)
	} else if path, err = checkParent(t.parent); err == nil {
		t.parent = path
	}
	for _, h := range slices.Concat(t.all, t.foreignHierarchies) {
		h.parent = h.mount + path
	}
	return err
}

// checkParent returns the parent group as a clean path from the mount point.
func checkParent(parent string) (string, error) {
	if parent == "" {
		return "/candor", nil
	}
	path := filepath.Join("/", parent)
	hasDotDot := slices.Contains(strings.Split(parent, "/"), "..")
	if path == "/" || hasDotDot || strings.ContainsAny(parent, "\n\x00") || len(parent) > unix.PathMax/4 {
		return "", fmt.Errorf("cgroup parent %.60q: must be the path of a group below the mount point, such as /candor", parent)
	}
	return path, nil
}

// checkWritable finds out before anything is changed whether groups can be made.
func (t *Tree) checkWritable() error {
	if t.driver == Systemd {
		return nil // systemd's to decide
	}
	for _, h := range t.all {
		dir := h.existingAncestor()
		err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		if err != nil {
			return fmt.Errorf("cgroup %s: %w to this user (%w); run as root, or choose a delegated group with --cgroup-parent%s",
				dir, ErrNotDelegated, err, t.ownDelegated())
		}
	}
	return nil
}

// existingAncestor returns the lowest group on the way to Candor's parent that exists.
func (h *hierarchy) existingAncestor() string {
	dir := h.parent
	for dir != h.mount {
		if ok, _ := isGroup(dir); ok {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// ownDelegated names the group of this process, if it is writable: a user with a delegated group need not search for it.
func (t *Tree) ownDelegated() string {
	text, err := kernelfs.Read(t.proc + "/self/cgroup")
	if err != nil || t.Version() != 2 {
		return ""
	}
	groups, err := parseMembership(bytes.TrimSpace(text))
	path, ok := t.cpu.membership(groups)
	if err != nil || !ok {
		return ""
	}
	dir := t.cpu.dirOf(path)
	if dir == t.cpu.mount || unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK, unix.AT_EACCESS) != nil {
		return ""
	}
	return fmt.Sprintf(" (such as a group below %s, the group of this process)", strings.TrimPrefix(dir, t.cpu.mount))
}

// SetDeadline bounds the waits of the tree's methods for the kernel and systemd, in addition to their own limits. The zero time is
// no bound. It returns the former deadline. Each method makes at least one attempt.
func (t *Tree) SetDeadline(end time.Time) (before time.Time) {
	var nanos int64
	if !end.IsZero() {
		nanos = end.UnixNano()
	}
	if nanos = t.deadline.Swap(nanos); nanos != 0 {
		before = time.Unix(0, nanos)
	}
	return before
}

// remainingTime returns the rest of a limit before the deadline; 0 or less: no time is left.
func (t *Tree) remainingTime(limit time.Duration) time.Duration {
	if nanos := t.deadline.Load(); nanos != 0 {
		limit = min(limit, time.Until(time.Unix(0, nanos)))
	}
	return limit
}

// A hierarchy is a tree of groups: of a v1 controller, or the tree of v2.
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
	var pathErr error
	err = procfs.EachMountIn(in, procfs.MaxHostMounts, []string{" - cgroup"}, func(m *mountinfo.Info) {
		if m.FSType != "cgroup" && m.FSType != "cgroup2" {
			return
		}
		if !filepath.IsAbs(m.Mountpoint) {
			pathErr = fmt.Errorf("mountinfo: mount point %.60q is not absolute", m.Mountpoint)
			return
		}
		found = addHierarchy(found, m)
	})
	if err == nil {
		err = pathErr
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

// hasController reports whether a v1 hierarchy is that controller's.
func (h *hierarchy) hasController(controller string) bool {
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
			return nil, fmt.Errorf("cannot parse %.60q", line)
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
