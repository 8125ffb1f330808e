// Package probe watches how a program starts. It records the sources from which the program reads the number of CPUs, and the
// number of the program's threads.
//
// Become installs a seccomp filter and executes the program. Watch receives the filter's notifications (seccomp_unotify(2), Linux 5.5) and
// lets every call continue. Unlike with ptrace, threads stop at no other calls, signals are unchanged, and the program can trace other
// programs itself. Unlike with eBPF, no event is lost, and every kernel build supports seccomp. Package probe only observes; package
// experiment draws the conclusions.
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

// Command is the hidden subcommand of candor that calls Become.
const Command = "internal-probe"

// ErrUnsupported means that the machine or its kernel does not support watching programs.
var ErrUnsupported = errors.New("cannot probe programs here")

// Seen is the observation of a program.
type Seen struct {
	Threads int      `json:"threads"` // peak of the threads of all its processes
	Sources []Source `json:"sources"` // sorted by name
	Settled bool     `json:"settled"` // the program ended, or had no event for as long as its start had taken
}

// A Source is a file or a system call that gives the number of CPUs.
type Source struct {
	Name  string `json:"name"` // name in the output of candor view
	Asked int    `json:"asked"`
}

// addRead records that the program read a source. It ignores "".
func (s *Seen) addRead(name string) {
	if name == "" {
		return
	}
	at, found := slices.BinarySearchFunc(s.Sources, name, func(s Source, name string) int { return cmp.Compare(s.Name, name) })
	if !found {
		s.Sources = slices.Insert(s.Sources, at, Source{Name: name})
	}
	s.Sources[at].Asked++
}

// cpuFolder matches the directories of single CPUs, which some programs count.
var cpuFolder = regexp.MustCompile(`^/sys/devices/system/cpu(/cpu[0-9]+(/.*)?)?$`)

// sourceOf returns the name of the source that a file belongs to, or "" if the file belongs to no source.
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
