package host

import (
	"context"
	"slices"

	"github.com/candor-project/candor/internal/procfs"
)

// AsPlanned reports whether a container that was admitted, and whose group its engine has made since, has all that its
// grant says, and the process is its own (0: not known). It may start then, and Note may follow later: whoever changes the
// grant from now on finds the group, and gives it what it is to have. It does not wait: while an operation goes on, which may
// have looked before the group was there, nothing is known to be as planned.
func (h *Host) AsPlanned(a *Allocation, pid int) bool {
	lock, free := tryLock(h.store.lockFile())
	if !free {
		return false
	}
	defer lock.release()
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
	want.Weight = k.settings.Weight // the runtime's way to write it may round it: Note sets it right
	if pid != 0 {
		if has, err := k.Contains(pid); err != nil || !has {
			return false
		}
	}
	return k.settings == want
}

// Note notes that a container has begun that was found to be as planned: nothing else of it. One that has
// ended since, or has been replaced by another of its name, is left as it is.
func (h *Host) Note(ctx context.Context, a *Allocation, pid int) error {
	var main Process
	if pid != 0 {
		var err error
		if main, err = processOf(pid); err != nil {
			return nil // it has ended
		}
	}
	return h.operateOn(ctx, about{a.ID, a.Engine.Pod}, func(op *operation) error {
		g, k := op.info[a.ID], op.groups[a.ID]
		if g == nil || g.Engine != a.Engine || k == nil || !k.populated {
			return nil
		}
		g.State, g.Deadline, g.Main = Running, 0, main
		return nil
	})
}
