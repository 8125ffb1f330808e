package host

// Frozen reports whether somebody has stopped a container's processes by the kernel's freezer, as docker pause does.
func (h *Host) Frozen(g *Grant) (bool, error) { return h.groupOf(g).Frozen() }

// Thaw lets them go on.
func (h *Host) Thaw(g *Grant) error { return h.groupOf(g).Thaw() }
