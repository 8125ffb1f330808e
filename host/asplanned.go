package host

import (
	"slices"

	"github.com/candor-project/candor/internal/procfs"
)

// AsPlanned reports whether a container that was admitted, and whose group its engine has made since, has all that its
// grant says, and the process is its own (0: not known). It may start then, and Begin may follow later. It takes no lock.
// Whoever changes the grant from now on finds the group, and gives it what it is to have.
func (h *Host) AsPlanned(a *Allocation, pid int) bool {
	s, err := h.store.load()
	if err != nil {
		return false
	}
	if boot, err := procfs.BootID(); err != nil || s.Boot != boot {
		return false
	}
	i := slices.IndexFunc(s.Grants, func(g *Grant) bool { return g.ID == a.ID })
	if i < 0 || s.Grants[i].Engine != a.Engine || s.Grants[i].State == Held || s.Grants[i].Mems {
		return false
	}
	k, err := read(h.groupOf(s.Grants[i]))
	if err != nil || !k.populated {
		return false
	}
	want := h.settings(s.Grants[i])
	want.Mems = k.settings.Mems
	if pids, err := k.Processes(); err != nil || pid != 0 && !slices.Contains(pids, pid) {
		return false
	}
	return k.settings == want
}
