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

// A Report holds the CPU counts and the memory that a process finds in its sources.
type Report struct {
	Sources    []Source `json:"sources"`
	LimitMilli int      `json:"limitMilli"` // limit of the process in milli-CPU: the minimum of its affinity and its quotas
	CPUs       int      `json:"cpus"`       // CPU count that programs should find: the limit, rounded up to whole CPUs
	// IsTrue reports that the count of each source with the role Reported equals CPUs and, with a memory limit, that
	// /proc/meminfo shows the limit.
	IsTrue  bool     `json:"honest"`
	Reasons []string `json:"reasons"` // reasons why IsTrue is false, a line each

	Memory      []MemorySource `json:"memory,omitempty"`
	MemoryLimit int64          `json:"memoryLimitBytes,omitempty"` // absent without a limit below the machine's memory
}

// A Role is the purpose of a source in the comparison of CPU counts with the limit of a process.
type Role string

// Roles.
const (
	Reported Role = "told"    // programs choose their number of threads by this source, so its count should equal the limit, rounded up
	Grant    Role = "grant"   // the kernel enforces the CPUs or the quota of this source
	Machine  Role = "machine" // the source shows the whole machine in every container (see the package comment)
)

// A Source holds the CPUs or the CPU count that programs find in a file or by a system call.
type Source struct {
	Name       string     `json:"name"` // path of a file, or one of the constants below
	Role       Role       `json:"role"`
	CPUs       cpuset.Set `json:"cpus"`                 // empty if the source only has a count
	Count      int        `json:"count"`                // number of CPUs
	QuotaMilli int        `json:"quotaMilli,omitempty"` // quota in milli-CPU; 0: no quota
	Path       string     `json:"path,omitempty"`       // path of the cgroup's file from which the source was read
	Masked     bool       `json:"masked,omitempty"`     // another file is mounted over the file, such as a view
	Error      string     `json:"error,omitempty"`      // reason why the source could not be read; "": it was read
}

// Names of the sources that are not files with a fixed path.
const (
	SourceAffinity = "sched_getaffinity"
	SourceCPUSet   = "cgroup cpuset"
	SourceQuota    = "cgroup quota"
)

// ReadSources reads every source from the calling process. If a source cannot be read, ReadSources sets its Error.
func ReadSources() Report {
	r := observe(os.DirFS("/"), readAffinity())
	r.readOwnMemory()
	return r
}

// readAffinity reads the CPU affinity of this process.
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

// observe reads the sources from the file system root, and adds the affinity.
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

// readMounts returns the mounts of cgroup hierarchies, and the mounts over the files of the view.
func readMounts(root fs.FS) (table []*mountinfo.Info) {
	file, err := root.Open("proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer file.Close()
	sources := []string{hostOnline, hostCPUInfo, hostPresent, hostPossible, hostStat, hostMeminfo}
	_ = procfs.EachMountIn(file, procfs.MaxTenantMounts, append(sources, " - cgroup"), func(m *mountinfo.Info) {
		if len(table) < maxMounts && (slices.Contains(sources, m.Mountpoint) || strings.HasPrefix(m.FSType, "cgroup")) {
			table = append(table, m)
		}
	})
	return table
}

// maxMounts bounds the mounts that readMounts returns.
const maxMounts = 1000

// Paths of the sources that describe the whole machine.
const (
	hostPresent  = "/sys/devices/system/cpu/present"
	hostPossible = "/sys/devices/system/cpu/possible"
	hostStat     = "/proc/stat"
)

// readSource reads a source that is a file. parse returns the CPUs in the content of the file.
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

// errorText returns the text of an error without the path of the file that the caller tried to read. A Source already shows this path.
func errorText(err error) string {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// readText returns the content of a file, or nil if the file cannot be read.
func readText(root fs.FS, path string) []byte {
	text, _ := fs.ReadFile(root, strings.TrimPrefix(path, "/"))
	return text
}

// parseOnline parses a CPU list, with or without the padding of a view.
func parseOnline(text []byte) (cpuset.Set, error) {
	set, err := cpuset.Parse(strings.TrimRight(string(text), "\n"))
	return set, refuseEmpty(set, err)
}

// parsePossible parses a CPU list that can contain offline CPUs.
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

// parseCPUInfoSet returns the CPUs for which the text of /proc/cpuinfo has a stanza.
func parseCPUInfoSet(text []byte) (cpuset.Set, error) {
	info, err := parseCPUInfo(text)
	return info.cpus(), err
}

// parseStat returns the CPUs for which the text of /proc/stat has a line.
func parseStat(text []byte) (cpuset.Set, error) {
	var set cpuset.Set
	for line := range strings.Lines(string(text)) {
		id, _, isCPU := strings.Cut(strings.TrimPrefix(line, "cpu"), " ")
		if !isCPU || id == "" || !strings.HasPrefix(line, "cpu") {
			continue // the line is the sum of all CPUs, or not about CPUs
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

// evaluate computes the limit, and compares the counts of the sources with it.
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
