// Package cgroup creates and changes the cgroups of Candor's containers, on cgroup v1, v2 and hosts with both. It is the only package
// that writes to a cgroup. The package handles CPUs, quotas, weights and memory, and does not depend on classes or plans. It stores no
// state, because the kernel's files hold the values of every group.
//
// "Group" means cgroup in this package. A group's folder is its directory in the mounted cgroup file system; on v1 a group has a folder
// in each of several hierarchies. A nested group lies below another group at any depth. A foreign group is a group that Candor did not
// create.
//
// Candor's groups are the children of Candor's parent group: "/candor", or the group that Options.Parent names. Candor owns the parent
// group. On v1 a cpuset loses a CPU for good when the CPU goes offline. Therefore the package restores the cpuset of the parent group from
// the group above. To limit Candor to some CPUs, limit that upper group, not the parent group.
//
// The package also reads the quotas above Candor's parent group (cpu.go), and the exclusive CPUs of the groups beside the parent group
// (cpuset.go). If a creation fails, the package removes the groups that it created, and restores the groups that it changed
// (parent.go).
//
// A refusal by the kernel is a *WriteError with the file, the value and the kernel's reason. The package does not write a value that a
// file already has, because at each write of a quota, period or burst the kernel refills the quota at once.
//
// A container can create processes and nested groups without end. Therefore most walks through processes or nested groups have a bound
// (members.go, moveTimeout).
//
// The model of the package is opencontainers/cgroups. Candor does not use that library, because its managers rewrite the quota with every
// change and do not change nested groups. Besides, they log some refusals instead of returning them, and support a fixed mount point only.
//
// Two processes must not change the same group at the same time; package host holds a lock to prevent this.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// A Driver is the method by which the package creates cgroups.
type Driver string

// Drivers.
const (
	Auto     Driver = "auto"     // Systemd if systemd runs the machine on v2 and this user is root, else Cgroupfs; see setDriver
	Cgroupfs Driver = "cgroupfs" // through the kernel's files only
	Systemd  Driver = "systemd"  // one transient scope of the system's systemd per group
)

// Options configure Open: Candor's parent group, the driver and the root directory.
type Options struct {
	// Parent is Candor's parent group: a path below the mount point ("/candor", the default), or with the systemd driver the name of a
	// slice ("candor.slice", the default there).
	Parent string
	Driver Driver // "" is Auto
	// Root is the directory that contains the proc and sys file systems to use, "/" by default. With another root, the package uses
	// the mounts of process 1 in that root's proc.
	Root string
	// Owner identifies the Candor state that the groups belong to, such as the path of the state's directory. The package refuses
	// to create a group below a parent group with groups of another state. "" disables the check.
	Owner string
	// ReadOnly skips the check that this process can create groups. It is for callers that only read, or that only set values of
	// foreign groups.
	ReadOnly bool
}

// Settings are the resources of a group.
type Settings struct {
	CPUs cpuset.Set // never empty
	Mems cpuset.Set // memory nodes; empty: the memory nodes of the parent

	// Quota is the CPU time per Period. Burst is the maximum of unused quota that the kernel accumulates. Quota 0 means no limit,
	// Period 0 means 100 ms. The kernel requires a quota and a period of 1 ms or more, a period of 1 s at most, and
	// Burst <= Quota. Values are in whole microseconds.
	Quota, Period, Burst time.Duration

	// Weight is the group's relative share of the time of a CPU on which several groups are runnable. 1000, or 0, is the kernel's
	// default: cpu.shares 1024 on v1, cpu.weight 100 on v2. Both files are linear in Weight. Values outside the kernel's range
	// (shares 2 to 262144, weight 1 to 10000) are clamped.
	Weight int
}

var (
	// ErrNoCPU means that the kernel, or the parent group, does not offer the cpu controller.
	ErrNoCPU = errors.New("no cpu controller")
	// ErrNoCpuset means that the kernel, or the parent group, does not offer the cpuset controller.
	ErrNoCpuset = errors.New("no cpuset controller")
	// ErrNotDelegated means that this user cannot create groups at all, or cannot create groups in this part of the tree.
	ErrNotDelegated = errors.New("not delegated")
	// ErrBusy means that the group has processes.
	ErrBusy = errors.New("the group has processes")
	// ErrOwned means that Candor's parent group has groups of another Candor state (Options.Owner).
	ErrOwned = errors.New("belongs to the state in")
	// ErrNoGroup reports a missing group.
	ErrNoGroup = errors.New("no such group")
	// ErrNoFreezer means that the processes of a group cannot be frozen by a Freezer.
	ErrNoFreezer = errors.New("no freezer")
	// ErrUnavailable reports CPUs or memory nodes that the parent group does not have, such as an offline CPU.
	ErrUnavailable = errors.New("not available")
)

// A WriteError is the kernel's refusal of a value.
type WriteError struct {
	File  string // full path
	Value string
	Err   error // the kernel's errno
}

func (e *WriteError) Error() string {
	const maxLength = 100
	value := e.Value
	if len(value) > maxLength {
		value = value[:maxLength] + "…"
	}
	return fmt.Sprintf("write %q to %s: %v", value, e.File, e.Err)
}

func (e *WriteError) Unwrap() error { return e.Err }

// undoError marks the error of a failed undo.
func undoError(err error) error {
	return fmt.Errorf("cannot undo the change, and a part of it remains: %w", err)
}

// isGone reports whether an error means that a group was removed: while the group's file was open (ENODEV), or before the file was
// opened (ErrNotExist).
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
