package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/program"
)

func kernelVersion(s *System) finding {
	text, err := s.kernelText("proc/sys/kernel/osrelease")
	if err != nil {
		return s.unreadable(err, Failed, "mount procfs on /proc")
	}
	v, _ := program.ParseVersion(text)
	if v.Before(6, 2) {
		return warn("if programs pin their threads, use Linux 6.2 or newer; Candor does not move the fraction of a container with such threads",
			"Linux %s: a change of a cpuset resets the affinity that threads have set for themselves", text)
	}
	return pass("Linux %s", text)
}

func machineCPUs(s *System) finding {
	m, err := s.topology()
	if err != nil {
		return fail("mount sysfs on /sys; in a container, run candor doctor as root or on the host", "cannot read the CPUs: %v", err)
	}
	if m.Online.Count() == 1 {
		return warn("use a machine with 2 CPUs or more", "1 CPU: a container with a CPU of its own would leave no CPU to others")
	}
	return pass("%d CPUs online; sockets: %d, NUMA nodes: %d, cores: %d", m.Online.Count(), len(m.Sockets), len(m.Nodes), len(m.Cores))
}

func isolatedCPUs(s *System) finding {
	m, err := s.topology()
	if err != nil {
		return s.unreadable(err, Unknown, "see the check cpus")
	}
	isolated := m.Isolated.Intersect(m.Online)
	if isolated.IsEmpty() {
		return pass("none")
	}
	options, err := s.options()
	if err != nil {
		return s.unreadable(err, Unknown, "see the check host-options")
	}
	if options.UseIsolated {
		return pass("%s: allocated, because useIsolated is true", cputext.CPUs(isolated))
	}
	return warn(`remove isolcpus= from the kernel's command line, or set "useIsolated": true in `+s.Config,
		"%s: isolated by isolcpus=, so Candor gives them to no container", cputext.CPUs(isolated))
}

// cpuBurst checks whether the kernel supports bursts. It does if a cgroup with a quota file also has a file for the burst.
// Without such a cgroup, cpuBurst uses the version of the kernel.
func cpuBurst(s *System) finding {
	mounts, err := s.cgroupMounts()
	if err != nil {
		return s.unreadable(err, Failed, "mount procfs on /proc")
	}
	for _, m := range mounts {
		quota, burst := "cpu.cfs_quota_us", "cpu.cfs_burst_us"
		dirs := []string{m.Mountpoint}
		if m.FSType == "cgroup2" {
			quota, burst = "cpu.max", "cpu.max.burst"
			dirs = append(dirs, s.someGroups(m.Mountpoint)...)
		}
		for _, dir := range dirs {
			if !s.exists(filepath.Join(dir, quota)) {
				continue
			}
			if s.exists(filepath.Join(dir, burst)) {
				return pass("%s", burst)
			}
			return warn("use Linux 5.14 or newer for --burst; limits work without it", "the kernel has no %s", burst)
		}
	}
	text, _ := s.kernelText("proc/sys/kernel/osrelease")
	if v, _ := program.ParseVersion(text); v.Before(5, 14) {
		return warn("use Linux 5.14 or newer for --burst; limits work without it", "Linux %s has no burst", text)
	}
	return pass("Linux %s has it; no group has a quota file yet", text)
}

// someGroups returns the directories of at most 100 cgroups directly below a mount point.
func (s *System) someGroups(mount string) (dirs []string) {
	const most = 100
	f, err := os.Open(s.path(mount))
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(10 * most)
	for _, entry := range entries {
		if entry.IsDir() && len(dirs) < most {
			dirs = append(dirs, filepath.Join(mount, entry.Name()))
		}
	}
	return dirs
}

// Limits of inotify for each user. The default of the kernel is 128 instances, and at least 8,192 watches. A process that refreshes
// views has an instance, and up to three watches for each container with a memory limit.
const (
	minInstances = 128
	minWatches   = 8192
)

// inotify checks the limits of inotify, which reports the reads of the memory in a view.
func inotify(s *System) finding {
	var found []string
	for _, limit := range []struct {
		name string
		min  int64
	}{{"max_user_instances", minInstances}, {"max_user_watches", minWatches}} {
		text, err := s.kernelText("proc/sys/fs/inotify/" + limit.name)
		if errors.Is(err, fs.ErrNotExist) {
			return warn("use a kernel with CONFIG_INOTIFY_USER", "the kernel has no inotify: the memory in a view is up to 30 s old")
		}
		if err != nil {
			return s.unreadable(err, Unknown, "sysctl fs.inotify")
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return finding{Unknown, fmt.Sprintf("fs.inotify.%s is %.20q", limit.name, text), "sysctl fs.inotify"}
		}
		if n < limit.min {
			return warn(fmt.Sprintf("sysctl fs.inotify.%s=%d", limit.name, limit.min),
				"fs.inotify.%s is %d: with many containers, the memory in a view is up to 30 s old", limit.name, n)
		}
		found = append(found, fmt.Sprintf("%s %d", limit.name, n))
	}
	return pass("%s", strings.Join(found, ", "))
}

func seLinux(s *System) finding {
	text, err := s.kernelText("sys/fs/selinux/enforce")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pass("off")
	case err != nil:
		return s.unreadable(err, Unknown, "run getenforce")
	case text == "1":
		return warn("run candor view in a container; if it does not show the limit, ausearch -m avc lists the refusals of SELinux",
			"enforcing: Candor is not tested with SELinux, which can refuse containers the files of their view")
	}
	return pass("permissive")
}

func appArmor(s *System) finding {
	text, err := s.kernelText("sys/module/apparmor/parameters/enabled")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pass("off")
	case err != nil:
		return s.unreadable(err, Unknown, "run aa-status")
	case !strings.HasPrefix(text, "Y"):
		return pass("off")
	case !s.wants(UseKubernetes):
		return pass("on")
	}
	return warn("if the agent's log has required_plugins=\"not known\", check required_plugins by hand; containers get their CPUs anyway",
		"on: the runtime's default profile can deny the agent's pod the reads of the kubelet and the runtime in /proc")
}
