package doctor

import (
	"errors"
	"slices"
	"strings"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/cputext"
)

// mountRemedy is the next step if no cgroup file system is mounted.
const mountRemedy = "mount cgroup v2 on /sys/fs/cgroup; in a container, mount the host's /sys/fs/cgroup"

func cgroupVersion(s *System) finding {
	mounts, err := s.cgroupMounts()
	if err != nil {
		return s.unreadable(err, Failed, "mount procfs on /proc")
	}
	var v1, v2 bool
	for _, m := range mounts {
		v1, v2 = v1 || m.FSType == "cgroup", v2 || m.FSType == "cgroup2"
	}
	switch {
	case v1 && v2:
		return pass("v1 and v2")
	case v1:
		return pass("v1")
	case v2:
		return pass("v2")
	}
	return fail(mountRemedy, "no cgroup file system is mounted")
}

// tree opens the cgroups read-only.
func (s *System) tree() (*cgroup.Tree, error) {
	o := s.Cgroup
	o.Root, o.ReadOnly = s.Root, true
	return cgroup.Open(o)
}

func cgroupControllers(s *System) finding {
	t, err := s.tree()
	switch {
	case errors.Is(err, cgroup.ErrNoCPU), errors.Is(err, cgroup.ErrNoCpuset):
		return fail("remove cgroup_disable= from the kernel's command line, or set Delegate=cpu cpuset in the service", "%v", err)
	case err != nil:
		return s.unreadable(err, Failed, mountRemedy)
	}
	defer t.Close()
	return pass("cpu and cpuset, on cgroup v%d", t.Version())
}

// cgroupWritable reports whether Candor can create cgroups. It reads the options of the mounts and the rights, and writes nothing.
func cgroupWritable(s *System) finding {
	mounts, err := s.cgroupMounts()
	if err != nil {
		return s.unreadable(err, Failed, "mount procfs on /proc")
	}
	for _, m := range mounts {
		isOurs := m.FSType == "cgroup2" || slices.ContainsFunc(strings.Split(m.VFSOptions, ","), func(o string) bool { return o == "cpu" || o == "cpuset" })
		if isOurs && slices.Contains(strings.Split(m.Options, ","), "ro") {
			return fail("mount it read-write: mount -o remount,rw "+m.Mountpoint+"; in a container, mount the host's /sys/fs/cgroup read-write",
				"%s is mounted read-only", m.Mountpoint)
		}
	}
	o := s.Cgroup
	o.Root = s.Root
	t, err := cgroup.Open(o)
	switch {
	case err == nil:
		defer t.Close()
		return pass("this user can create cgroups, driver %s", t.Driver())
	case errors.Is(err, cgroup.ErrNotDelegated) && !s.isRoot():
		return finding{Unknown, err.Error(), "run candor doctor as root; candor run also works in a group that is delegated to this user"}
	case errors.Is(err, cgroup.ErrNotDelegated):
		return fail("mount the cgroup file system read-write, or choose a group of this container with --cgroup-parent", "%v", err)
	}
	return s.unreadable(err, Failed, mountRemedy)
}

// cgroupCPUs finds a cpuset above Candor's parent group: AllowedCPUs= of a systemd unit, or the cpuset of a container.
func cgroupCPUs(s *System) finding {
	t, err := s.tree()
	if err != nil {
		return finding{Unknown, err.Error(), "see the check cgroup-controllers"}
	}
	defer t.Close()
	cpus, _, err := t.Effective()
	if err != nil {
		return s.unreadable(err, Failed, "give the group above Candor's parent group CPUs")
	}
	m, err := s.topology()
	if err != nil {
		return finding{Unknown, err.Error(), "see the check cpus"}
	}
	if missing := m.Online.Minus(cpus); !missing.IsEmpty() {
		return warn("remove AllowedCPUs= of the slices above (systemctl show candor.slice -p AllowedCPUs), or the exclusive CPUs of another group",
			"Candor's parent group can have %s, and lacks %s", cputext.CPUs(cpus), cputext.CPUs(missing))
	}
	return pass("Candor's parent group can have all CPUs")
}

// cgroupMemory checks whether the cgroups can have memory limits, which the views of containers show.
func cgroupMemory(s *System) finding {
	t, err := s.tree()
	if err != nil {
		return finding{Unknown, err.Error(), "see the check cgroup-controllers"}
	}
	defer t.Close()
	if !t.HasMemory() {
		return warn("remove cgroup_disable=memory from the kernel's command line, or set Delegate=cpu cpuset memory in the service",
			"no memory controller: candor run refuses --memory, and views do not show the memory of a container")
	}
	return pass("the memory controller is available")
}

// cgroupQuota finds a quota above Candor's containers.
func cgroupQuota(s *System) finding {
	t, err := s.tree()
	if err != nil {
		return finding{Unknown, err.Error(), "see the check cgroup-controllers"}
	}
	defer t.Close()
	bounds, err := t.BoundsOfParent()
	if err != nil {
		return s.unreadable(err, Unknown, "read cpu.max of the groups above Candor's parent group")
	}
	if b := cgroup.Tightest(bounds); b.Quota != 0 {
		return warn("remove the quota of this group (CPUQuota= of its unit, or cpu.max), or add up the limits of its containers",
			"group %s has a quota of %v per %v, which bounds all containers of candor run and candor-runc together", b.Path, b.Quota, b.Period)
	}
	return pass("no quota above Candor's containers")
}
