package view

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
)

// A Report holds the CPU counts that the sources of a process report.
type Report struct {
	Sources    []Source `json:"sources"`
	LimitMilli int      `json:"limitMilli"` // milli-CPU: the minimum of its CPUs and its quotas
	CPUs       int      `json:"cpus"`       // the view that equals the limit: rounded up to whole CPUs
	IsTrue     bool     `json:"honest"`     // the view equals the limit
	Reasons    []string `json:"reasons"`    // why it is not, a line each; else empty
}

// A Role is the relation of a source to the view and the limit of a process.
type Role string

const (
	Reported Role = "told"    // programs size themselves by it: it must equal the limit
	Grant    Role = "grant"   // enforced by the kernel
	Machine  Role = "machine" // speaks of the whole machine, in every container (see the package comment)
)

// A Source is a source from which programs take the CPU count.
type Source struct {
	Name       string     `json:"name"` // a path, a system call, or "cgroup quota"
	Role       Role       `json:"role"`
	CPUs       cpuset.Set `json:"cpus"` // "" where the source tells a number only
	Count      int        `json:"count"`
	QuotaMilli int        `json:"quotaMilli,omitempty"` // a quota, in milli-CPU; 0: none
	Path       string     `json:"path,omitempty"`       // of a cgroup's file
	Masked     bool       `json:"masked,omitempty"`     // a view is mounted over it
	Error      string     `json:"error,omitempty"`      // the source could not be read
}

// The names of the sources that are no paths.
const (
	SourceAffinity = "sched_getaffinity"
	SourceCPUSet   = "cgroup cpuset"
	SourceQuota    = "cgroup quota"
)

// ReadSources reads every source in the calling process's own place. A source that cannot be
// read carries its error; Observe itself does not fail.
func ReadSources() Report {
	return observe(os.DirFS("/"), readAffinity())
}

// readAffinity asks the kernel where this process may run.
func readAffinity() Source {
	s := Source{Name: SourceAffinity, Role: Reported}
	cpus, err := procfs.Affinity(os.Getpid())
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.CPUs = cpus
	s.Count = s.CPUs.Count()
	return s
}

// observe reads the sources below a root directory.
func observe(root fs.FS, affinity Source) Report {
	table := readMounts(root)
	r := Report{Sources: []Source{
		affinity,
		readSource(root, table, Reported, hostOnline, parseOnline),
		readSource(root, table, Reported, hostCPUInfo, parseCPUInfoSet),
		observeCPUSet(root, table),
		observeQuota(root, table),
		readSource(root, table, Machine, hostPresent, parsePossible),
		readSource(root, table, Machine, hostPossible, parsePossible),
		readSource(root, table, Machine, hostStat, parseStat),
	}}
	r.evaluate()
	return r
}

// readMounts returns the mounts of interest: the cgroup hierarchies, and those over a source.
func readMounts(root fs.FS) (table []*mountinfo.Info) {
	file, err := root.Open("proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer file.Close()
	sources := []string{hostOnline, hostCPUInfo, hostPresent, hostPossible, hostStat}
	_ = procfs.EachMountIn(file, procfs.MaxTenantMounts, append(sources, " - cgroup"), func(m *mountinfo.Info) {
		if len(table) < maxMounts && (slices.Contains(sources, m.Mountpoint) || strings.HasPrefix(m.FSType, "cgroup")) {
			table = append(table, m)
		}
	})
	return table
}

// maxMounts bounds the mounts that readMounts returns.
const maxMounts = 1000

// The sources that describe the whole machine.
const (
	hostPresent  = "/sys/devices/system/cpu/present"
	hostPossible = "/sys/devices/system/cpu/possible"
	hostStat     = "/proc/stat"
)

// readSource reads the CPUs in a file.
func readSource(root fs.FS, table []*mountinfo.Info, role Role, path string, parse func([]byte) (cpuset.Set, error)) Source {
	s := Source{Name: path, Role: role}
	s.Masked = slices.ContainsFunc(table, func(m *mountinfo.Info) bool { return m.Mountpoint == path })
	text, err := fs.ReadFile(root, strings.TrimPrefix(path, "/"))
	if err == nil {
		s.CPUs, err = parse(text)
	}
	if err != nil {
		s.Error = errorText(err)
		return s
	}
	s.Count = s.CPUs.Count()
	return s
}

// errorText returns the error's text without the path, which is the source's name.
func errorText(err error) string {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// readText reads a file that may be missing.
func readText(root fs.FS, path string) []byte {
	text, _ := fs.ReadFile(root, strings.TrimPrefix(path, "/"))
	return text
}

// parseOnline reads a CPU list, padded or not.
func parseOnline(text []byte) (cpuset.Set, error) {
	set, err := cpuset.Parse(strings.TrimRight(string(text), "\n"))
	return set, refuseEmpty(set, err)
}

// parsePossible reads a list that names CPUs which are not online, too.
func parsePossible(text []byte) (cpuset.Set, error) {
	set, err := cpuset.ParsePossible(string(text))
	return set, refuseEmpty(set, err)
}

func refuseEmpty(set cpuset.Set, err error) error {
	if err == nil && set.IsEmpty() {
		return errors.New("empty")
	}
	return err
}

// parseCPUInfoSet reads which CPUs /proc/cpuinfo has stanzas for.
func parseCPUInfoSet(text []byte) (cpuset.Set, error) {
	info, err := parseCPUInfo(text)
	return info.cpus(), err
}

// parseStat reads which CPUs /proc/stat has a line for.
func parseStat(text []byte) (cpuset.Set, error) {
	var set cpuset.Set
	for line := range strings.Lines(string(text)) {
		id, _, isCPU := strings.Cut(strings.TrimPrefix(line, "cpu"), " ")
		if !isCPU || id == "" || !strings.HasPrefix(line, "cpu") {
			continue // the sum of all, or not a CPU
		}
		cpu, err := cpuset.Parse(id)
		if err != nil {
			return cpuset.Set{}, err
		}
		set = set.Union(cpu)
	}
	if set.IsEmpty() {
		return set, errors.New("no line for a CPU")
	}
	return set, nil
}

// evaluate compares the reported CPU counts with the limit.
func (r *Report) evaluate() {
	r.Reasons = []string{}
	quota := 0
	for _, s := range r.Sources {
		switch {
		case s.Name == SourceAffinity:
			r.LimitMilli = 1000 * s.Count
		case s.QuotaMilli > 0:
			quota = s.QuotaMilli
		}
	}
	if quota > 0 && (r.LimitMilli == 0 || quota < r.LimitMilli) {
		r.LimitMilli = quota
	}
	r.CPUs = (r.LimitMilli + 999) / 1000
	for _, s := range r.Sources {
		switch {
		case s.Error != "" && s.Role == Reported, s.Error != "" && s.Name == SourceQuota:
			r.Reasons = append(r.Reasons, fmt.Sprintf("%s cannot be read: %s", s.Name, s.Error))
		case s.Role == Reported && s.Count != r.CPUs:
			r.Reasons = append(r.Reasons, fmt.Sprintf("%s reports %d", s.Name, s.Count))
		}
	}
	r.IsTrue = len(r.Reasons) == 0
}
