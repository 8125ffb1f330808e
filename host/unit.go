package host

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// The groups of engines' containers may be units of systemd's. It is told what they have been given: else its next reload gives them
// what they had. That takes a millisecond a group. A process that lives long does it when the operation is
// over, some groups at a time; until then, and where systemd did not answer, the repair that follows a reload mends it.

// untold are the groups of which systemd is to be told, by container.
type untold struct {
	mu   sync.Mutex
	all  map[string]cgroup.Untold
	some chan struct{} // one, if there are any
}

func (u *untold) add(name string, more cgroup.Untold) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[string]cgroup.Untold{}
	}
	had := u.all[name]
	more.CPUs, more.Time = more.CPUs || had.CPUs, more.Time || had.Time
	u.all[name] = more
	select {
	case u.some <- struct{}{}:
	default:
	}
}

// take takes the first of them, so many at most; more are left if left is true.
func (u *untold) take(most int) (taken []cgroup.Untold, left bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(u.all)) {
		if len(taken) == most {
			return taken, true
		}
		taken = append(taken, u.all[name])
		delete(u.all, name)
	}
	return taken, false
}

// tellUnits has systemd told what this operation has given to groups that are its units.
func (op *operation) tellUnits(before []target) {
	var all []cgroup.Untold
	for _, had := range before {
		k := op.groups[had.name]
		if k == nil || !k.isEngines() || k.settings == had.settings {
			continue
		}
		u := cgroup.Untold{Group: k.Group, CPUs: k.settings.CPUs != had.settings.CPUs || k.settings.Mems != had.settings.Mems}
		rest := k.settings
		rest.CPUs, rest.Mems = had.settings.CPUs, had.settings.Mems
		u.Time = rest != had.settings
		if op.tellsLater {
			op.units.add(had.name, u)
		}
		all = append(all, u)
	}
	if !op.tellsLater {
		op.tell(all)
	}
}

// tell is called by who has the lock.
func (h *Host) tell(all []cgroup.Untold) {
	if err := h.tree.Tell(all); err != nil {
		h.log.Warn("systemd was not told what containers have: a reload of its undoes that until the repair after it", "error", err)
	}
}

// TellUnits tells systemd what operations have left to it (Options.TellsLater), until ctx is done.
func (h *Host) TellUnits(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.units.some:
		}
		for left := true; left && ctx.Err() == nil; {
			left = h.tellSome(ctx)
		}
	}
}

// tellSome has the lock for as long as a few groups take: a container may wait for it.
func (h *Host) tellSome(ctx context.Context) (left bool) {
	const few, atMost = 8, 500 * time.Millisecond
	lock, err := takeLock(ctx, h.store.lockFile(), h.patience)
	if err != nil {
		return errors.As(err, new(*lateError)) // whoever has it will let go of it
	}
	defer lock.release()
	defer h.tree.Until(h.tree.Until(time.Now().Add(atMost)))
	some, left := h.units.take(few)
	h.tell(some)
	return left
}
