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

// A Tree gives access to the groups of this machine: to Candor's groups and to foreign groups.
type Tree struct {
	driver             Driver
	parent             string
	owner              string
	proc               string // the proc file system in use
	cpu                *hierarchy
	cpuset             *hierarchy
	acct               *hierarchy   // hierarchy of v1's cpuacct; nil if the cpu controller is on v2, which counts CPU time itself
	reaper             *hierarchy   // hierarchy that can kill or freeze all processes of a group: v2, or v1's freezer; or nil
	all                []*hierarchy // cpu, cpuset, acct and reaper, without duplicates
	foreignHierarchies []*hierarchy // other hierarchies: container runtimes create groups in them, Candor does not
	memory             *hierarchy   // hierarchy of the memory controller, in all or in foreignHierarchies; or nil
	bus                *bus         // connection to systemd; nil unless the driver is Systemd
	open               openFiles    // files with CPU lists
	memoryOpen         openFiles    // files of the memory controller
	reclaimed          reclaimCache // of groups with limits above containers
	deadline           atomic.Int64 // deadline from SetDeadline, as Unix time in nanoseconds; 0: none

	parentUndo atomic.Pointer[steps] // steps of RestoreParent
	newSlice   atomic.Bool           // systemd driver: the last Create created Candor's slice, so RestoreParent stops it

	warmUntil   atomic.Int64 // end of the present warm-up (WarmMoves), as Unix time in nanoseconds
	isWarming   atomic.Bool  // a warm-up is running; only its goroutine uses ownDir and isOwnHidden
	ownDir      string       // folder of this process's group; "": not found yet
	isOwnHidden bool         // the group of this process is not visible below the mount point
}

// Open finds the cgroup hierarchies of this machine. It changes nothing. The error is a single line: ErrNoCPU, ErrNoCpuset,
// ErrNotDelegated, or the error of an invalid option.
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

// Version returns 2 if the cpu and cpuset controllers are both on cgroup v2, else 1.
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
	t.KeepMemoryOpen(0)
	if t.bus != nil {
		t.bus.close()
	}
	return nil
}

// findHierarchies returns the mounted cgroup hierarchies.
func findHierarchies(root string) ([]hierarchy, error) {
	process := "self"
	if root != "/" {
		process = "1" // this process has the mounts of another root
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

// byController returns the hierarchy that offers a controller, or nil. At most one hierarchy does, because the kernel attaches a
// controller to a single hierarchy at a time.
func byController(found []hierarchy, controller string) *hierarchy {
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

// chooseHierarchies selects the hierarchy of each controller.
func (t *Tree) chooseHierarchies(found []hierarchy) error {
	const remedy = "mount it (cgroup v2 on /sys/fs/cgroup), or enable it with the kernel's options or, in a service, Delegate="
	if t.cpuset = byController(found, "cpuset"); t.cpuset == nil {
		return fmt.Errorf("%w in the cgroups of this machine; %s", ErrNoCpuset, remedy)
	}
	if t.cpu = byController(found, "cpu"); t.cpu == nil {
		return fmt.Errorf("%w in the cgroups of this machine; %s", ErrNoCPU, remedy)
	}
	if !t.cpu.v2 {
		t.acct = byController(found, "cpuacct")
	}
	switch {
	case t.cpuset.v2:
		t.reaper = t.cpuset
	case t.cpu.v2:
		t.reaper = t.cpu
	default:
		t.reaper = byController(found, "freezer")
	}
	for _, h := range []*hierarchy{t.cpu, t.cpuset, t.acct, t.reaper} {
		if h != nil && !slices.Contains(t.all, h) {
			t.all = append(t.all, h)
		}
	}
	if t.memory = byController(found, "memory"); t.memory != nil {
		_, err := os.Lstat(filepath.Join(t.memory.mount, "cgroup.events")) // the machine's root group does not have the file
		t.memory.rootHasLimits = !t.memory.v2 || err == nil
	}
	for i := range found {
		if !slices.Contains(t.all, &found[i]) {
			t.foreignHierarchies = append(t.foreignHierarchies, &found[i])
		}
	}
	return nil
}

// setDriver sets the driver and the path of Candor's parent group.
func (t *Tree) setDriver(o Options) error {
	booted := o.Root == "/" && t.Version() == 2 && runsSystemd()
	root := os.Geteuid() == 0 // systemd creates groups only for root
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

// checkWritable returns ErrNotDelegated if this user cannot create groups. It changes nothing.
func (t *Tree) checkWritable() error {
	if t.driver == Systemd {
		return nil // systemd creates the groups, and checks the permission itself
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

// existingAncestor returns the folder of Candor's parent group if this group exists, else of its nearest existing ancestor.
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

// ownDelegated returns a hint for an error: the path of this process's group, if the user can write to that group. Otherwise it returns
// "".
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

// SetDeadline sets a time after which the tree's methods no longer wait for the kernel or systemd, in addition to the timeouts of the
// methods. The zero time means no deadline. SetDeadline returns the former deadline. Each method makes at least one attempt.
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

// remainingTime returns the smaller of a limit and the time until the deadline. A result of 0 or less means that the deadline has passed.
func (t *Tree) remainingTime(limit time.Duration) time.Duration {
	if nanos := t.deadline.Load(); nanos != 0 {
		limit = min(limit, time.Until(time.Unix(0, nanos)))
	}
	return limit
}

// A hierarchy is a mounted tree of groups: the tree of a v1 controller (or of several v1 controllers), or the tree of v2.
type hierarchy struct {
	mount       string // mount point
	root        string // path of the group that is mounted at the mount point: "/", or often the container's group in a container
	v2          bool
	controllers []string // v1: controllers and names of the hierarchy ("cpu", "cpuacct", "name=systemd")
	parent      string   // folder of Candor's parent group, below mount

	// rootHasLimits reports whether the group at the mount point can have limits of its memory. The machine's root group of v2
	// cannot.
	rootHasLimits bool
}

// parseMounts returns the cgroup hierarchies in a mountinfo file. For a hierarchy with several mounts, it returns the mount that shows
// the largest part of the hierarchy.
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

// hasController reports whether a v1 hierarchy has a controller.
func (h *hierarchy) hasController(controller string) bool {
	return slices.Contains(h.controllers, controller)
}

// parseMembership parses /proc/PID/cgroup. It returns the path of the process's group in each hierarchy. The map has a key for each
// controller of a v1 hierarchy, and the key "" for v2.
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

// dirOf returns the folder of the group with a path from /proc/PID/cgroup. If a cgroup namespace or the mount hides the group, dirOf
// returns the mount point.
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

// membership returns the path of a process's group in this hierarchy. groups is the result of parseMembership.
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
