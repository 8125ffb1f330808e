package host

// PlaceHelper lets a helper of a container share the container's quota and weight. The container must have a cgroup of
// Candor. The error is cgroup.ErrNoPlacement if this machine does not allow it.
func (h *Host) PlaceHelper(name string, pid int) error { return h.tree.Group(name).PlaceHelper(pid) }

// ReturnHelpers moves the helpers of a container back to their own cgroups, so that a runtime can remove the container's
// cgroup.
func (h *Host) ReturnHelpers(name string) error { return h.tree.Group(name).ReturnHelpers() }
