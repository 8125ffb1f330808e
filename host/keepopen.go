package host

import "github.com/candor-project/candor/cgroup"

// KeepOpen has this process keep lists of CPUs of containers' groups open, so many at most: for one that runs on, and calls CloseUnused
// now and then.
func (*Host) KeepOpen(most int) { cgroup.KeepOpen(most) }

// CloseUnused closes those that are not read any more.
func (*Host) CloseUnused() { cgroup.CloseUnused() }
