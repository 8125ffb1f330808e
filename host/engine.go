package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
)

// CheckEngineGroup refuses a container of an engine by the cgroupsPath of its specification: groups below Candor's parent
// group are Candor's own. ErrBadSpec.
func (h *Host) CheckEngineGroup(cgroupsPath string) error {
	if err := h.tree.CheckEngineGroup(cgroupsPath); err != nil {
		return fmt.Errorf("%w: %w", ErrBadSpec, err)
	}
	return nil
}

// groupOf is the group of a container, whoever makes it.
func (h *Host) groupOf(g *Grant) *cgroup.Group {
	if g.Engine.Cgroup != "" {
		return h.tree.EngineGroup(g.ID, g.Engine.Cgroup)
	}
	return h.tree.Group(g.ID)
}

// isEngines reports whether a group is a container engine's to make and remove.
func (g *group) isEngines() bool { return g.engine.Cgroup != "" }

// observeEngines reads the groups of the containers that engines run. Where the state
// was lost, the requests beside it say which those are.
func (op *operation) observeEngines() {
	grants := op.loaded.Grants
	if len(grants) == 0 {
		grants = op.store.Requests()
	}
	for _, g := range grants {
		if g.Engine.Cgroup == "" {
			continue
		}
		if k := op.glance(g); k != nil {
			op.groups[g.ID] = k
		} else {
			op.observeEngine(g.ID, g.Engine)
		}
	}
}

// observeEngine reads one group, if it is there: engines make it late and remove it early.
func (op *operation) observeEngine(name string, e Engine) {
	k, err := read(op.tree.EngineGroup(name, e.Cgroup))
	if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		k = &group{Group: op.tree.EngineGroup(name, e.Cgroup), populated: true, unreadable: err}
	}
	k.engine = e
	op.groups[name] = k
}

// holds reports whether a container has stopped whose pod keeps its CPUs.
func (op *operation) holds(g *Grant, populated bool) bool {
	return !populated && g.State == Running && g.Engine.Pod != ""
}

// podGone reports whether the pod of a held grant is no more: the group above its
// container's is removed with the pod, also while nobody tells us.
func (op *operation) podGone(g *Grant, populated bool) bool {
	if populated || g.State != Held || g.Engine.Cgroup == "" {
		return false
	}
	above := filepath.Dir(g.Engine.Cgroup)
	if cgroup.CheckPath(above) != nil {
		return false
	}
	is, err := op.tree.EngineGroup(g.ID, above).Exists()
	return err == nil && !is
}

// endedInEngine is for a container without processes. One of a pod is made by the runtime: that the
// candor which planned it has ended says nothing. One without was planned by an OCI runtime, which
// lives until it is made.
func endedInEngine(g *Grant) bool {
	switch {
	case g.State != Pending:
		return g.Engine.Pod == ""
	case g.Engine.Pod == "" && !g.Creator.Alive():
		return true
	default:
		return g.Deadline != 0 && state.SinceBoot() > g.Deadline
	}
}

// ViewDir is the directory of a container's view, with the files of package view.
func (h *Host) ViewDir(name string) string { return h.store.ViewDir(name) }
