package host

import (
	"errors"
	"io/fs"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A group is what the kernel has of one of Candor's containers.
type group struct {
	*cgroup.Group
	settings  cgroup.Settings
	populated bool
	engine    Engine // whose group it is; zero: Candor's
	unread    bool   // all of this is what its grant says
	of        *Grant // that grant
	// unreadable, if not nil, is the error of a read of the group's files. The settings are assumptions then
	// (assumeUnreadable).
	unreadable error
}

// observe reads the groups that exist. Half a group, which a candor left that was
// killed in the middle of making or removing it (v1: one folder after the
// other), has no processes and is removed here.
func (h *Host) observe() (map[string]*group, error) {
	names, err := h.tree.Groups()
	if err != nil {
		return nil, err
	}
	groups := make(map[string]*group, len(names))
	for _, name := range names {
		g, err := h.look(name)
		if errors.Is(err, fs.ErrNotExist) && !g.populated {
			before := h.tree.Until(time.Now().Add(brief))
			err = g.Remove()
			h.tree.Until(before)
			g = nil
		}
		if errors.Is(err, cgroup.ErrNoGroup) || err == nil && g == nil {
			continue // it went meanwhile
		}
		if err != nil {
			g = &group{Group: h.tree.Group(name), populated: true, unreadable: err}
		}
		groups[name] = g
	}
	return groups, nil
}

// look reads one group.
func (h *Host) look(name string) (*group, error) { return read(h.tree.Group(name)) }

func read(of *cgroup.Group) (*group, error) {
	g := &group{Group: of}
	var err error
	if g.populated, err = g.Populated(); err == nil {
		g.settings, err = g.Settings()
	}
	return g, err
}

// ended reports whether a container is over, by what the kernel shows of it.
// Nothing ends while processes run; a creator that lives may still be about to
// start them.
func (g *Grant) ended(populated bool) bool {
	switch {
	case populated || g.State == Held:
		return false
	case g.Engine.Cgroup != "":
		return g.endedInEngine()
	case g.State == Pending && g.Deadline != 0 && sinceBoot() > g.Deadline:
		return true
	default:
		return !g.Creator.Alive()
	}
}
