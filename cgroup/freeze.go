package cgroup

// freeze stops the group's processes, those that are being started too.
// Where there is no freezer it does nothing. thaw lets them go on.
func (g *Group) freeze() (thaw func() error, err error) {
	h := g.tree.reaper
	switch {
	case h == nil:
		return func() error { return nil }, nil
	case h.v2:
		return g.freezeBy("cgroup.freeze", "1", "0", func(dir string) (bool, error) {
			events, err := read(dir, "cgroup.events")
			if err != nil {
				return false, err
			}
			n, err := field(events, "frozen")
			return n == 1, err
		})
	}
	return g.freezeBy("freezer.state", "FROZEN", "THAWED", func(dir string) (bool, error) {
		state, err := read(dir, "freezer.state")
		return string(state) == "FROZEN", err
	})
}

// freezeBy writes and waits. A process that can't be frozen (it hangs in the
// kernel) is no reason to fail: it can't fork either.
func (g *Group) freezeBy(file, on, off string, done func(dir string) (bool, error)) (thaw func() error, err error) {
	dir := g.dir(g.tree.reaper)
	thaw = func() error {
		if err := write(dir, file, off); err != nil && !gone(err) {
			return err
		}
		return nil
	}
	if err := write(dir, file, on); err != nil {
		if gone(err) { // half a group
			return thaw, nil
		}
		return nil, err
	}
	for wait := newWait(g.tree.atMost(removeTimeout)); ; {
		frozen, err := done(dir)
		if err != nil && !gone(err) {
			_ = thaw()
			return nil, err
		}
		if frozen || err != nil || !wait.more() {
			return thaw, nil
		}
	}
}

// Frozen reports whether somebody has stopped the group itself (docker pause). Where there is no freezer nobody has.
func (g *Group) Frozen() (bool, error) {
	h := g.tree.reaper
	if h == nil {
		return false, nil
	}
	file := "freezer.self_freezing"
	if h.v2 {
		file = "cgroup.freeze"
	}
	state, err := read(g.dir(h), file)
	if err != nil && gone(err) {
		return false, nil
	}
	return string(state) == "1", err
}

// Thaw lets the processes of a group that is frozen go on.
func (g *Group) Thaw() error {
	h := g.tree.reaper
	if h == nil {
		return nil
	}
	if h.v2 {
		return write(g.dir(h), "cgroup.freeze", "0")
	}
	return write(g.dir(h), "freezer.state", "THAWED")
}
