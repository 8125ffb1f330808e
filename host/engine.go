package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
)

// CheckEngineGroup checks the cgroupsPath in the specification of an engine's container. The error is ErrBadSpec if
// the path is below Candor's parent cgroup, which is reserved for Candor's own cgroups.
func (h *Host) CheckEngineGroup(cgroupsPath string) error {
	if err := h.tree.CheckEngineGroup(cgroupsPath); err != nil {
		return fmt.Errorf("%w: %w", ErrBadSpec, err)
	}
	return nil
}

// groupOf returns the cgroup of a container, which an engine or Candor has created.
func (h *Host) groupOf(g *Grant) *cgroup.Group {
	if g.Engine.Cgroup != "" {
		return h.tree.EngineGroup(g.ID, g.Engine.Cgroup)
	}
	return h.tree.Group(g.ID)
}

// logName returns the log attributes that name a container: its display name and, if that differs, its ID.
func logName(id string, e *Engine) slog.Attr {
	return LogName(cmp.Or(e.DisplayName().String(), id), id)
}

// LogName returns the log attributes that name a container: its display name (Grant.DisplayName) and, if that differs, its ID. An
// id of "" is unknown.
func LogName(name, id string) slog.Attr {
	if id == "" || name == id {
		return slog.String("container", name)
	}
	return slog.Group("", slog.String("container", name), slog.String("id", id))
}

// logName returns the log attributes of a container that has a grant now, or had one at the start of the operation.
func (op *operation) logName(id string) slog.Attr {
	if g := cmp.Or(op.info[id], op.before[id]); g != nil {
		return logName(id, &g.Engine)
	}
	return slog.String("container", id)
}

// displayName returns the name in texts of a container that has a grant now, or had one at the start of the operation.
func (op *operation) displayName(id string) string {
	if g := cmp.Or(op.info[id], op.before[id]); g != nil {
		return g.DisplayName()
	}
	return id
}

// nameRefusal sets the display name of the container g in a refusal of this container, and returns err.
func nameRefusal(err error, g *Grant) error { return setName(err, g.ID, g.DisplayName()) }

// nameRefusal sets the display name of a container in a refusal of this container, and returns err.
func (op *operation) nameRefusal(err error, id string) error {
	return setName(err, id, op.displayName(id))
}

func setName(err error, id, name string) error {
	if refusal := new(hybrid.Refusal); errors.As(err, &refusal) && refusal.ID == id {
		refusal.Name = name
	}
	return err
}

// isEngineOwned reports whether a container engine creates and removes the cgroup.
func (g *group) isEngineOwned() bool { return g.engine.Cgroup != "" }

// observeEngines reads the cgroups of engines' containers, or assumes their settings (assumedGroup). If the state is
// lost, the saved requests name these containers.
func (op *operation) observeEngines() {
	grants := op.loaded.Grants
	if len(grants) == 0 {
		grants = op.store.Requests()
	}
	for _, g := range grants {
		if g.Engine.Cgroup == "" {
			continue
		}
		if k := op.assumedGroup(g); k != nil {
			op.groups[g.ID] = k
		} else {
			op.observeEngine(g.ID, g.Engine)
		}
	}
}

// observeEngine reads the cgroup of an engine's container into op.groups, if the cgroup exists. An engine creates the
// cgroup after the grant, and removes it before the release.
func (op *operation) observeEngine(name string, e Engine) {
	k, err := readSettings(op.tree.EngineGroup(name, e.Cgroup))
	if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		k = &group{Group: op.tree.EngineGroup(name, e.Cgroup), populated: true, unreadable: err}
	}
	k.engine = e
	op.groups[name] = k
}

// mustHold reports whether a container has stopped and its pod holds its CPUs for a restart.
func (op *operation) mustHold(g *Grant, populated bool) bool {
	return !populated && g.State == Running && g.Engine.Pod != ""
}

// isPodGone reports whether the pod of a held grant has been removed. The parent of the container's cgroup disappears with the pod, even if
// no event reaches Candor.
func (op *operation) isPodGone(g *Grant, populated bool) bool {
	if populated || g.State != Held || g.Engine.Cgroup == "" {
		return false
	}
	above := filepath.Dir(g.Engine.Cgroup)
	if cgroup.CheckPath(above) != nil {
		return false
	}
	exists, err := op.tree.EngineGroup(g.ID, above).Exists()
	return err == nil && !exists
}

// hasEndedInEngine does the work of hasEnded for an engine's container without processes. For a container in a pod, the
// end of the candor process that planned the container proves nothing, because the engine's runtime starts the
// container. A container without a pod was planned by an OCI runtime wrapper, which lives until the container exists.
func hasEndedInEngine(g *Grant) bool {
	switch {
	case g.State != Pending:
		return g.Engine.Pod == ""
	case g.Engine.Pod == "" && !g.Creator.Alive():
		return true
	default:
		return g.Deadline != 0 && state.SinceBoot() > g.Deadline
	}
}

// ViewDir returns the directory of a container's view, with the files of package view.
func (h *Host) ViewDir(name string) string { return h.store.ViewDir(name) }

// PlaceHelper moves a helper into its container's cgroup, so that both share the quota and the weight. The cgroup gets
// a quota if it has none, because the cpuset does not bound the helper. The container must have a cgroup of Candor. The
// error is cgroup.ErrNoPlacement if this machine does not allow it.
func (h *Host) PlaceHelper(ctx context.Context, name string, pid int) error {
	err := h.operate(ctx, func(op *operation) error {
		g := op.info[name]
		if g == nil {
			return unknownContainer(name)
		}
		op.subject = name
		if err := op.tree.Group(name).PlaceHelper(pid); err != nil {
			return err
		}
		g.HasHelper = true
		return nil
	})
	if err != nil { // a later step can have failed, such as the quota
		return errline.Join(err, h.ReturnHelpers(name))
	}
	return nil
}

// ReturnHelpers moves the helpers of a container back to their own cgroups, so that a runtime can remove the container's
// cgroup.
func (h *Host) ReturnHelpers(name string) error {
	if err := h.tree.Group(name).ReturnHelpers(); !errors.Is(err, cgroup.ErrNoGroup) {
		return err
	}
	return nil
}
