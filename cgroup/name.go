package cgroup

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// What the kernel's own files in a group's folder are called: these words, and on
// every kernel the controllers' names with a dot and more.
var (
	kernelFiles = []string{"tasks", "notify_on_release", "release_agent"}
	kernelHeads = []string{"cgroup", "cpu", "cpuset", "cpuacct", "freezer", "memory", "io", "blkio", "pids", "hugetlb",
		"rdma", "misc", "dmem", "devices", "net_cls", "net_prio", "perf_event", "irq", "debug"}
)

// CheckName says what is wrong with the name of a group, which is a folder's name too.
func CheckName(name string) error {
	head, _, dotted := strings.Cut(name, ".")
	switch {
	case !goodName.MatchString(name):
		return fmt.Errorf("name %s: want 1 to 64 letters, digits, '_', '.' and '-', the first a letter or digit", quoted(name))
	case slices.Contains(kernelFiles, name), dotted && slices.Contains(kernelHeads, head):
		return fmt.Errorf("name %q: the kernel's own files are called so; "+
			"want any other than tasks, notify_on_release, release_agent and what begins with cpu., cgroup. or another controller", name)
	}
	return nil
}

// quoted quotes a name that may be far too long.
func quoted(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return fmt.Sprintf("%q", name)
}
