package host

import "github.com/candor-project/candor/cgroup"

// KeepOpen has this process keep files of containers' groups open, so many at most: for one that runs on. It calls TendOpen
// now and then.
func (h *Host) KeepOpen(most int) error {
	cgroup.KeepOpen(most)
	return h.TendOpen()
}

// TendOpen closes what was kept open and is not read any more, and looks whether groups may be moved the shorter way
// (cgroup.Tree.MindBalance).
func (h *Host) TendOpen() error {
	cgroup.CloseUnused()
	if h.planOnly {
		return nil
	}
	return h.tree.MindBalance()
}
