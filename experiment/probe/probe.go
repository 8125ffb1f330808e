// Package probe watches how a program starts: which sources it asks how many CPUs there are, and how many threads it has.
//
// The kernel tells of a few system calls by seccomp's notifications (seccomp_unotify(2), Linux 5.5), and goes on with
// each as if nothing had been. Other than under ptrace the threads stop at nothing else, signals go where they went,
// and the program may trace others itself; other than with eBPF no event is lost, and no kernel is built
// without. Nothing here decides anything.
package probe

import (
	"cmp"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/candor-project/candor/view"
)

// Command is the hidden subcommand of candor that becomes the program to watch: see Become.
const Command = "internal-probe"

// ErrUnsupported is a machine or a kernel on which nothing can be watched.
var ErrUnsupported = errors.New("no program can be probed here")

// Seen is what was seen of a program.
type Seen struct {
	Threads int      `json:"threads"` // of all its processes, the most at once
	Sources []Source `json:"sources"` // by name
	Settled bool     `json:"settled"` // it ended, or had done nothing of all that for as long as before: more is hardly to come
}

// A Source tells programs a number of CPUs.
type Source struct {
	Name  string `json:"name"` // as candor view calls it
	Asked int    `json:"asked"`
}

// asks notes that the program asks a source; "" is none.
func (s *Seen) asks(name string) {
	if name == "" {
		return
	}
	at, has := slices.BinarySearchFunc(s.Sources, name, func(s Source, name string) int { return cmp.Compare(s.Name, name) })
	if !has {
		s.Sources = slices.Insert(s.Sources, at, Source{Name: name})
	}
	s.Sources[at].Asked++
}

// cpuFolder are the folders of single CPUs, which some programs count.
var cpuFolder = regexp.MustCompile(`^/sys/devices/system/cpu(/cpu[0-9]+(/.*)?)?$`)

// sourceOf returns the source that a file is; "" if it is none.
func sourceOf(name string) string {
	name = path.Clean(name)
	switch name {
	case "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible", "/sys/devices/system/cpu/present", "/proc/cpuinfo", "/proc/stat":
		return name
	}
	if cpuFolder.MatchString(name) {
		return "/sys/devices/system/cpu/cpu*"
	}
	if !strings.HasPrefix(name, "/sys/fs/cgroup/") {
		return ""
	}
	switch path.Base(name) {
	case "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us":
		return view.SourceQuota
	case "cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus":
		return view.SourceCPUSet
	case "cpu.shares", "cpu.weight":
		return "cgroup weight"
	}
	return ""
}
