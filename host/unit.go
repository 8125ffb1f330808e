package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// The groups of engines' containers may be units of systemd's. It is told what they have been given: else its next reload gives them
// what they had. That takes a millisecond a group. A process that lives long does it when the operation is
// over, some groups at a time; until then, and where systemd did not answer, the repair that follows a reload mends it.

// pendingUnits are the groups of which systemd is to be told, by container.
type pendingUnits struct {
	mu   sync.Mutex
	all  map[string]cgroup.PendingUnitUpdate
	some chan struct{} // one, if there are any
	// files is held while systemd is told, which is when it writes files that are then given back what they had: no
	// quota is raised meanwhile.
	files sync.Mutex
}

func (u *pendingUnits) add(name string, more cgroup.PendingUnitUpdate) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[string]cgroup.PendingUnitUpdate{}
	}
	had := u.all[name]
	more.CPUs, more.Time = more.CPUs || had.CPUs, more.Time || had.Time
	u.all[name] = more
	u.wake()
}

// wake has TellUnits look at them.
func (u *pendingUnits) wake() {
	select {
	case u.some <- struct{}{}:
	default:
	}
}

// take takes the first of them; ok is false where there is none.
func (u *pendingUnits) take() (name string, first cgroup.PendingUnitUpdate, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for other := range u.all {
		if !ok || other < name {
			name, ok = other, true
		}
	}
	first = u.all[name]
	delete(u.all, name)
	return name, first, ok
}

// tellUnits has systemd told what this operation has given to groups that are its units.
func (op *operation) tellUnits(before []target) {
	var all []cgroup.PendingUnitUpdate
	for _, had := range before {
		k := op.groups[had.name]
		if k == nil || !k.isEngines() || k.settings == had.settings {
			continue
		}
		u := k.PendingUnitUpdate(had.settings, k.settings)
		if g := op.info[had.name]; g != nil {
			u.Quota = quota(g)
		}
		switch {
		case !u.CPUs && !u.Time:
		case op.tellsLater:
			op.units.add(had.name, u)
		default:
			all = append(all, u)
		}
	}
	_ = op.tell(all)
}

// tell is called by who has the lock.
func (h *Host) tell(all []cgroup.PendingUnitUpdate) error {
	h.units.files.Lock()
	defer h.units.files.Unlock()
	err := h.tree.ApplyUnitUpdate(all)
	if err != nil {
		h.log.Warn("systemd was not told what containers have: a reload of its undoes that until the repair after it", "error", err)
	}
	return err
}

// UpdateUnits tells systemd what operations have left to it (Options.TellsLater), until ctx is done. Where it does not answer, it is
// asked again after a pause.
func (h *Host) UpdateUnits(ctx context.Context) {
	const pause = time.Second
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.units.some:
		}
		left, err := true, error(nil)
		for left && err == nil {
			left, err = h.tellSome(ctx)
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

// tellSome tells systemd of some groups, and has the lock for about as long as a container can be made to wait for it.
// An error is one after which it is to be tried again.
func (h *Host) tellSome(ctx context.Context) (left bool, err error) {
	const shortly, atMost = 100 * time.Millisecond, time.Second
	lock, err := takeLock(ctx, h.store.LockFile(), h.patience)
	if err != nil {
		h.units.wake()
		return false, err
	}
	defer lock.release()
	defer h.tree.SetDeadline(h.tree.SetDeadline(time.Time{}))
	for end := time.Now().Add(shortly); time.Now().Before(end); {
		name, u, ok := h.units.take()
		if !ok {
			return false, nil
		}
		h.tree.SetDeadline(time.Now().Add(atMost))
		if err := h.tell([]cgroup.PendingUnitUpdate{u}); errors.Is(err, context.DeadlineExceeded) {
			h.units.add(name, u)
			return false, err
		}
	}
	return true, nil
}
