package view

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/internal/seencpus"
)

// An Observation holds the CPUs that the programs of a container find in each source. Observe reads it from outside of the container.
type Observation struct {
	// Sources are the affinity, /sys/devices/system/cpu/online and /proc/cpuinfo with the role Reported, and /proc/stat with the role
	// Machine, in this order.
	Sources []Source
	View    string // name of the view that is mounted over both files with the role Reported; "": not the same view over both
	// IsHidden reports that the content of a file with the role Reported is unknown. The reason is that the mount table is too long or not
	// readable, or that the file of the view cannot be read. It is false if the mounted file does not belong to a view.
	IsHidden bool
}

// A Summary holds the CPU counts of an Observation.
type Summary = seencpus.Summary

// Observe returns the CPUs that programs find in each source: in the affinity of the process, and in the files of its mount namespace.
// views is the directory that contains the directories of the views.
//
// Observe opens no file of the container, because a tenant can mount an unresponsive file system over any file, and the open
// would never return. It reads the affinity of the process and at most procfs.MaxTenantMounts of its mount table. The table shows
// the file that is mounted at each path. If this is the kernel's own file, the Source has the online CPUs of this machine. If
// this is a file of a view, the Source has the CPUs that Observe reads from the directory of the view. Otherwise the Source has
// an Error. Observe trusts the name of a view: a tenant with the right to mount can show its own file under the name of a view.
//
// The error is fs.ErrNotExist if the process has ended.
func Observe(pid int, views string) (Observation, error) {
	if pid <= 0 {
		return Observation{}, endedError(pid)
	}
	cpus, err := procfs.Affinity(pid)
	if errors.Is(err, unix.ESRCH) {
		return Observation{}, endedError(pid)
	}
	affinity := Source{Name: SourceAffinity, Role: Reported, CPUs: cpus, Count: cpus.Count()}
	if err != nil {
		affinity.Error = errorText(err)
	}
	r := mountReader{views: views, online: sync.OnceValues(machineOnline)}
	r.table, r.err = readMountsOver(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if hasNoMounts(r.err) {
		return Observation{}, endedError(pid)
	}
	return r.observe(affinity), nil
}

func endedError(pid int) error { return fmt.Errorf("process %d: %w", pid, fs.ErrNotExist) }

// hasNoMounts reports whether an error of reading a mount table means that the process has ended. A process that is ending has no mount
// namespace, for which the kernel returns EINVAL.
func hasNoMounts(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

// CPUs returns the CPUs of the affinity; none if they are unknown.
func (o *Observation) CPUs() cpuset.Set {
	if len(o.Sources) == 0 {
		return cpuset.Set{}
	}
	return o.Sources[0].CPUs
}

// Widen replaces the affinity by the affinity of another process of the container, if the other affinity has more CPUs.
func (o *Observation) Widen(cpus cpuset.Set) {
	if len(o.Sources) > 0 && cpus.Count() > o.Sources[0].Count {
		o.Sources[0].CPUs, o.Sources[0].Count, o.Sources[0].Error = cpus, cpus.Count(), ""
	}
}

// minObservedThreads is the maximum number of threads whose affinity WidenByThreads reads, unless the container has more CPUs.
const minObservedThreads = 64

// WidenByThreads sets the affinity to the given CPUs of the container if the threads of a process can together run on all of them. A
// program can pin each of its threads, also the first, to a CPU of its own, for example with OMP_PROC_BIND=true. WidenByThreads reads at
// most 64 threads, or a thread for each of the CPUs if there are more CPUs.
func (o *Observation) WidenByThreads(pid int, cpus cpuset.Set) {
	if len(o.Sources) == 0 || o.Sources[0].Count >= cpus.Count() {
		return
	}
	all, err := procfs.ThreadAffinity(pid, max(minObservedThreads, cpus.Count()))
	if err == nil && cpus.SubsetOf(&all) {
		o.Widen(cpus)
	}
}

// Files returns the CPUs in the files with the role Reported. If the files differ, it returns the CPUs of the first file that
// differs from the affinity. isKnown is false if the content of a file is unknown, unless the other file differs from the
// affinity.
func (o *Observation) Files() (cpus cpuset.Set, isKnown bool) {
	isKnown = len(o.Sources) > 0
	var unknown bool
	for _, s := range o.Sources {
		switch {
		case s.Role != Reported || s.Name == SourceAffinity:
		case s.Error != "":
			unknown = true
		case s.CPUs != o.CPUs():
			return s.CPUs, true
		default:
			cpus = s.CPUs
		}
	}
	if unknown {
		return cpuset.Set{}, false
	}
	return cpus, isKnown
}

// Summary returns the CPU counts, without a note.
func (o *Observation) Summary() Summary {
	files, _ := o.Files()
	affinity := o.CPUs()
	return Summary{Affinity: affinity.Count(), Files: files.Count()}
}

// An observedFile is a file with CPU numbers, and its place in the kernel's file system.
type observedFile struct {
	path   string
	role   Role
	kind   string // type of the kernel's file system
	inside string // path in the kernel's file system
	name   string // name in the directory of a view; "": not part of a view
}

var observedFiles = []observedFile{
	{hostOnline, Reported, "sysfs", "/devices/system/cpu/online", onlineName},
	{hostCPUInfo, Reported, "proc", "/cpuinfo", cpuinfoName},
	{hostStat, Machine, "proc", "/stat", ""},
}

// A mountReader determines the content of files from a mount table.
type mountReader struct {
	table  []*mountinfo.Info // mounts at the paths of observedFiles and above
	err    error             // error of reading the table
	views  string            // directory of the views
	online func() (cpuset.Set, error)
}

// observe returns the observation of a process with the given affinity.
func (r *mountReader) observe(affinity Source) Observation {
	o := Observation{Sources: []Source{affinity}}
	var views []string
	for _, f := range observedFiles {
		s, name, isHidden := r.read(f)
		o.Sources = append(o.Sources, s)
		if f.role == Reported {
			o.IsHidden = o.IsHidden || isHidden
			views = append(views, name)
		}
	}
	if views[0] == views[1] {
		o.View = views[0]
	}
	return o
}

// read returns the source of a file. viewName is the name of the view whose file is mounted over it, or "". isHidden has the
// meaning of Observation.IsHidden.
func (r *mountReader) read(f observedFile) (s Source, viewName string, isHidden bool) {
	s = Source{Name: f.path, Role: f.role}
	if r.err != nil {
		s.Error = "the mount table of the container cannot be read: " + errorText(r.err)
		return s, "", true
	}
	m := mountAt(r.table, f.path)
	if m == nil {
		s.Error = "not mounted"
		return s, "", false
	}
	s.Masked = m.Mountpoint == f.path
	var err error
	switch viewName = f.viewName(m); {
	case m.FSType == f.kind && path.Join(m.Root, strings.TrimPrefix(f.path, m.Mountpoint)) == f.inside:
		s.CPUs, err = r.online()
	case viewName != "":
		if s.CPUs, err = ReadCPUs(filepath.Join(r.views, viewName)); err != nil {
			err, isHidden = viewError(viewName, err), true
		}
	case f.isRemovedView(m):
		err = errors.New(ErrorRemoved)
	default:
		err = fmt.Errorf("a file of %.40s instead of the kernel's", m.FSType)
	}
	if err != nil {
		s.CPUs, s.Error = cpuset.Set{}, errorText(err)
	}
	s.Count = s.CPUs.Count()
	return s, viewName, isHidden
}

// viewError returns an error of reading a view. It removes the path of the file from the error, because the path is outside of the
// container.
func viewError(name string, err error) error {
	if errors.Is(err, ErrLeased) {
		err = ErrLeased
	}
	return fmt.Errorf("view %.60s: %s", name, errorText(err))
}

// viewName returns the name of the view whose file is mounted at the path of f; "" if the mounted file belongs to no view. The
// root of the mount of a view's file is /candor/views/web/online in some file system.
func (f observedFile) viewName(m *mountinfo.Info) string {
	return f.viewOfRoot(m, m.Root)
}

// ErrorRemoved is the Error of a Source if the file of a view is mounted, and was removed from the directory of the view.
const ErrorRemoved = "the mounted file was removed"

// isRemovedView reports whether a removed file of a view is mounted at the path of f. The kernel marks the root of such a mount
// (dentry_path).
func (f observedFile) isRemovedView(m *mountinfo.Info) bool {
	root, isRemoved := strings.CutSuffix(m.Root, "//deleted")
	return isRemoved && f.viewOfRoot(m, root) != ""
}

// viewOfRoot is viewName for a mount with the given root.
func (f observedFile) viewOfRoot(m *mountinfo.Info, root string) string {
	dir, name := path.Split(root)
	views, container := path.Split(path.Clean(dir))
	if m.Mountpoint != f.path || f.name == "" || name != f.name || path.Base(views) != "views" {
		return ""
	}
	return container
}

// maxObservedMounts bounds the mounts at the observed files and at their parent directories. A container usually has one or two mounts at
// each of these paths.
const maxObservedMounts = 256

// errTooManyMounts means that a container has more mounts over the observed files than Observe inspects.
var errTooManyMounts = fmt.Errorf("more than %d mounts over the files: %w", maxObservedMounts, kernelfs.ErrTooLong)

// readMountsOver returns the mounts of a mountinfo file at the observed files and at their parent directories.
func readMountsOver(file string) (table []*mountinfo.Info, err error) {
	var paths []string
	for _, f := range observedFiles {
		paths = append(paths, f.path)
	}
	isLonger := false
	err = procfs.EachMountOver(file, procfs.MaxTenantMounts, paths, func(m *mountinfo.Info) (more bool) {
		if isLonger = len(table) == maxObservedMounts; !isLonger {
			table = append(table, m)
		}
		return !isLonger
	})
	if err == nil && isLonger {
		err = errTooManyMounts
	}
	return table, err
}

// mountAt returns the mount that contains the file at a path, as a path lookup of the kernel finds it; nil if the table has none. A later
// mount at a parent directory hides the earlier mounts below this directory.
func mountAt(table []*mountinfo.Info, file string) (at *mountinfo.Info) {
	for range table { // a table without cycles has at most this depth
		next := nextMount(table, at, file)
		if next == nil {
			break
		}
		at = next
	}
	return at
}

// nextMount returns the next mount that a path lookup of the file enters after it has entered the mount in at. If at is nil, the lookup
// starts at the root directory of the process.
func nextMount(table []*mountinfo.Info, at *mountinfo.Info, file string) (next *mountinfo.Info) {
	for _, m := range table {
		isNext := m != at && at != nil && m.Parent == at.ID || at == nil && isTop(table, m)
		if isNext && isAtOrAbove(m.Mountpoint, file) && (next == nil || len(m.Mountpoint) <= len(next.Mountpoint)) {
			next = m
		}
	}
	return next
}

// isTop reports whether the parent of a mount is missing in the table, because the process cannot reach the parent.
func isTop(table []*mountinfo.Info, m *mountinfo.Info) bool {
	for _, other := range table {
		if other != m && other.ID == m.Parent {
			return false
		}
	}
	return true
}

// isAtOrAbove reports whether a mount point is the path of a file or a directory above it.
func isAtOrAbove(mountPoint, file string) bool {
	return mountPoint == "/" || strings.HasPrefix(file+"/", mountPoint+"/")
}

// hostOffline is the list of the possible CPUs that are offline.
const hostOffline = "/sys/devices/system/cpu/offline"

// machineOnline returns the online CPUs of this machine: the present CPUs without the offline CPUs. The two files that machineOnline reads
// are not part of a view, so it returns the CPUs of the machine also in a container with a view.
func machineOnline() (cpuset.Set, error) {
	present, err := readCPUList(hostPresent)
	if err != nil {
		return cpuset.Set{}, err
	}
	offline, err := readCPUList(hostOffline)
	return present.Minus(offline), err
}

func readCPUList(file string) (cpuset.Set, error) {
	text, err := kernelfs.ReadPiece(file)
	if err != nil {
		return cpuset.Set{}, err
	}
	return cpuset.ParsePossible(string(text))
}
