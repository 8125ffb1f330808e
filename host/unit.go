package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// The cgroups of engines' containers can be systemd units. Candor updates the properties of these units, because
// systemd writes its own values to the cgroups at its next reload. An update takes about 1 ms per cgroup.
//
// A process that runs for a long time sends the updates after the operation, a few cgroups at a time. Until then, or
// if systemd does not answer, the repair after a reload restores the settings.

// pendingUnits holds the pending updates of systemd units, by container.
type pendingUnits struct {
	mu    sync.Mutex
	all   map[string]cgroup.PendingUnitUpdate
	ready chan struct{} // has an element if there are updates
	// files is locked during an update of systemd units, so that SetQuota waits. In this time, systemd writes cgroup files, and Candor
	// restores them.
	files sync.Mutex
}

func (u *pendingUnits) add(name string, more cgroup.PendingUnitUpdate) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[string]cgroup.PendingUnitUpdate{}
	}
	former := u.all[name]
	more.CPUs, more.Time = more.CPUs || former.CPUs, more.Time || former.Time
	u.all[name] = more
	u.wake()
}

// wake makes UpdateUnits handle the pending updates.
func (u *pendingUnits) wake() {
	select {
	case u.ready <- struct{}{}:
	default:
	}
}

// take removes and returns the update of the container whose name sorts first. ok is false if there is no update.
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

// updateUnits sends or queues the changed settings of cgroups that are systemd units.
func (op *operation) updateUnits(before []target) {
	var all []cgroup.PendingUnitUpdate
	for _, former := range before {
		k := op.groups[former.name]
		if k == nil || !k.isEngineOwned() || k.settings == former.settings {
			continue
		}
		u := k.PendingUnitUpdate(former.settings, k.settings)
		if g := op.info[former.name]; g != nil {
			u.Quota = quotaOf(g)
		}
		switch {
		case !u.CPUs && !u.Time:
		case op.defersUnitUpdates:
			op.units.add(former.name, u)
		default:
			all = append(all, u)
		}
	}
	_ = op.applyUnitUpdates(all)
}

// applyUnitUpdates sends updates to systemd. The caller must hold the state lock.
func (h *Host) applyUnitUpdates(all []cgroup.PendingUnitUpdate) error {
	h.units.files.Lock()
	defer h.units.files.Unlock()
	err := h.tree.ApplyUnitUpdate(all)
	if err != nil {
		h.log.Warn("cannot update systemd units: a reload of systemd resets their containers until the next repair", "error", err)
	}
	return err
}

// UpdateUnits sends pending updates to systemd until ctx is done (Options.DeferUnitUpdates). If systemd does not
// answer, it retries after a pause.
func (h *Host) UpdateUnits(ctx context.Context) {
	const pause = time.Second
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.units.ready:
		}
		hasMore, err := true, error(nil)
		for hasMore && err == nil {
			hasMore, err = h.applySomeUpdates(ctx)
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

// applySomeUpdates sends pending updates to systemd and holds the lock for about 100 ms, so that no container waits longer.
// hasMore reports whether updates can be left. After an error the caller must retry.
func (h *Host) applySomeUpdates(ctx context.Context) (hasMore bool, err error) {
	const shortly, atMost = 100 * time.Millisecond, time.Second
	lock, err := takeLock(ctx, h.store.LockFile(), h.lockTimeout)
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
		if err := h.applyUnitUpdates([]cgroup.PendingUnitUpdate{u}); errors.Is(err, context.DeadlineExceeded) {
			h.units.add(name, u)
			return false, err
		}
	}
	return true, nil
}
