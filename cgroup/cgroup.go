// Package cgroup creates and changes the cgroups of Candor's containers, on cgroup v1, v2 and hosts with both. It is the only package
// that writes to a cgroup. It knows CPUs, quotas and weights; it knows nothing
// of limits, classes or plans, and keeps no state: the kernel has it.
//
// Candor's groups are the children of one parent group, "/candor" unless
// Options names another. Candor owns the parent. On v1 a cpuset loses a CPU for good when the CPU goes
// offline, so the package restores the parent's cpuset from the group above. To confine
// Candor, confine the group above. Quotas and exclusive groups above and beside the parent are
// read (bound.go, exclusive.go), and the groups that a failed creation made or changed are
// restored (restoreparent.go).
//
// A refusal by the kernel is a *WriteError with the file, the value and the kernel's reason. Equal
// values are not written again: each write of a quota, period or burst gives the group a new
// quota at once.
//
// A container can create processes and nested groups without end. Every walk through them has a bound
// (members.go, moveTimeout).
//
// opencontainers/cgroups served as the model, not as a library. Its managers
// rewrite the quota with every change, do not walk nested groups, log some
// refusals instead of returning them and know one fixed mount point.
// Two processes must not change the same group at the same time; package host
// holds a lock.
package cgroup

import (
	"time"

	"github.com/candor-project/candor/cpuset"
)

// A Driver creates the cgroups.
type Driver string

// Drivers.
const (
	Auto     Driver = "auto"     // Systemd where it runs the machine and the tree is v2, else Cgroupfs
	Cgroupfs Driver = "cgroupfs" // the kernel's files alone
	Systemd  Driver = "systemd"  // a transient scope of the system's systemd per group
)

// Options select Candor's parent cgroup.
type Options struct {
	// Parent is Candor's own group: a path below the mount point
	// ("/candor", the default), or with systemd a slice ("candor.slice").
	Parent string
	Driver Driver // "" is Auto
	// Root is the directory whose proc and sys are used, "/" by default. With another root, the mounts are the mounts of its
	// process 1.
	Root string
	// Owner is the state to which the groups belong, such as the path of its directory: groups of two states below the same
	// parent are refused. "" disables the check.
	Owner string
	// ReadOnly skips the test whether groups can be created: for callers that only read, or that only set values of foreign groups.
	ReadOnly bool
}

// Settings are the resources of a group.
type Settings struct {
	CPUs cpuset.Set // never empty
	Mems cpuset.Set // memory nodes; empty: those of the parent

	// Quota is the CPU time per Period, Burst the unused quota that the kernel accumulates. Quota 0 is no limit, Period 0 is
	// 100 ms. The kernel requires 1 ms or more for both, a period of 1 s at most, and Burst <= Quota. Values are in whole
	// microseconds.
	Quota, Period, Burst time.Duration

	// Weight distributes the time of a CPU with several runnable groups. 1000, or 0, is the kernel's default: cpu.shares 1024,
	// cpu.weight 100. Both are linear. Values outside the kernel's range (2 to 262144, 1 to 10000) are clamped.
	Weight int
}
