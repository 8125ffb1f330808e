// Package twins compares containers that Candor has given back to their engines with their twins: the same containers, which the
// engine started without Candor. It also kills programs that give containers back at random points.
package twins

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Pair is a container with Candor and its twin without Candor.
type Pair struct {
	Name         string // description for messages
	Given, Plain int    // process IDs of a process in the container and of a process in the twin
	Parents      int    // number of parent groups to compare, such as 1 for the group of a pod
}

// settings are the files with the CPU settings of a cgroup, by the controller of cgroup v1. The empty name stands for cgroup v2.
var settings = map[string][]string{
	"": {"cpuset.cpus", "cpuset.cpus.effective", "cpuset.cpus.exclusive", "cpuset.cpus.partition", "cpuset.mems", "cpuset.mems.effective",
		"cpu.max", "cpu.max.burst", "cpu.weight", "cpu.idle"},
	"cpuset": {"cpuset.cpus", "cpuset.mems", "cpuset.cpu_exclusive", "cpuset.mem_exclusive"},
	"cpu":    {"cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares", "cpu.idle"},
}

// constants match the parts of two files of /proc that are constant on a machine: the size of the memory and the names of the
// CPUs. In a container with a view, they are the container's own.
var constants = map[string]*regexp.Regexp{
	"/proc/meminfo": regexp.MustCompile(`(?m)^MemTotal: .*$`),
	"/proc/stat":    regexp.MustCompile(`(?m)^cpu\d*`),
}

// Settings are the contents of the files with a container's CPU settings, and the constants that it finds in /proc. A name such as
// ../cpu.max stands for a file of a parent group.
type Settings struct {
	texts map[string]string // without the final newline, by name
	paths map[string]string // absolute paths, by name
}

// Read reads the CPU settings of the cgroup of a process, and of some parents of this cgroup, and the constants that the process
// finds in /proc.
func Read(pid, parents int) (Settings, error) {
	s := Settings{map[string]string{}, map[string]string{}}
	membership, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(membership)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			return s, fmt.Errorf("process %d: cannot parse its cgroups %q", pid, line)
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			if err := s.add(controller, filepath.Join("/sys/fs/cgroup", parts[1], parts[2]), parents); err != nil {
				return s, err
			}
		}
	}
	_, hasCPUs := s.texts["cpuset.cpus"]
	_, hasQuotaV1 := s.texts["cpu.cfs_quota_us"]
	_, hasQuotaV2 := s.texts["cpu.max"]
	if !hasCPUs || !hasQuotaV1 && !hasQuotaV2 {
		return s, fmt.Errorf("process %d: its cgroups have no CPU settings:\n%s", pid, membership)
	}
	return s, s.addConstants(pid)
}

// addConstants adds the constants in /proc of a process.
func (s *Settings) addConstants(pid int) error {
	for file, constant := range constants {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", pid, file))
		if err != nil {
			return err
		}
		s.texts[file] = strings.Join(constant.FindAllString(string(text), -1), " ")
		if s.texts[file] == "" {
			return fmt.Errorf("process %d: no %s in its %s", pid, constant, file)
		}
	}
	return nil
}

// add reads the files of a controller in a directory and its parent directories.
func (s *Settings) add(controller, dir string, parents int) error {
	prefix := ""
	for range parents + 1 {
		for _, file := range settings[controller] {
			path := filepath.Join(dir, file)
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // of another version of Linux, or cgroup v2 without this controller
			}
			if err != nil {
				return err
			}
			s.texts[prefix+file], s.paths[prefix+file] = strings.TrimSuffix(string(text), "\n"), path
		}
		dir, prefix = filepath.Dir(dir), prefix+"../"
	}
	return nil
}

// Differences returns the settings of the container that differ from those of its twin, a line for each file, and "" if there are
// none.
//
// On cgroup v2, the list of CPUs or memory nodes of a twin is empty. The kernel refuses an empty list for a group with processes
// that has a list (ENOSPC, validate_change in kernel/cgroup/cpuset.c). Only then, the container can have another list with the
// same effect: all possible CPUs of the machine, or the effective memory nodes. Differences tries the empty list to find out
// whether the kernel refuses it.
func (p *Pair) Differences() (string, error) {
	names, given, plain, err := p.differences()
	var lines strings.Builder
	for _, name := range names {
		fmt.Fprintf(&lines, "%s: %q, without Candor %q\n", name, given.texts[name], plain.texts[name])
	}
	return lines.String(), err
}

// differences returns the sorted names of the settings that differ, and the settings.
func (p *Pair) differences() (names []string, given, plain Settings, err error) {
	if given, err = Read(p.Given, p.Parents); err != nil {
		return nil, given, plain, err
	}
	if plain, err = Read(p.Plain, p.Parents); err != nil {
		return nil, given, plain, err
	}
	all := maps.Clone(given.texts)
	maps.Copy(all, plain.texts)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		has, isThere := given.texts[name]
		want, isWanted := plain.texts[name]
		if isThere == isWanted && has == want {
			continue
		}
		isRefused := false
		if want == "" && isThere && isWanted {
			if isRefused, err = given.isRefused(name); err != nil {
				return nil, given, plain, err
			}
		}
		if !isRefused {
			names = append(names, name)
		}
	}
	return names, given, plain, nil
}

// isRefused reports whether a list has the value that Candor writes if the kernel refuses an empty list, and the kernel refuses
// it.
func (s *Settings) isRefused(name string) (bool, error) {
	var substitute string
	switch name {
	case "cpuset.cpus":
		possible, err := os.ReadFile("/sys/devices/system/cpu/possible")
		if err != nil {
			return false, err
		}
		substitute = strings.TrimSpace(string(possible))
	case "cpuset.mems":
		substitute = s.texts["cpuset.mems.effective"]
	}
	if substitute == "" || s.texts[name] != substitute {
		return false, nil
	}
	err := os.WriteFile(s.paths[name], []byte("\n"), 0)
	return errors.Is(err, unix.ENOSPC), nil
}

// Check returns an error for each pair with differences.
func Check(pairs []*Pair) error {
	var errs []error
	for _, p := range pairs {
		lines, err := p.Differences()
		if err == nil && lines != "" {
			err = errors.New(lines)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}
