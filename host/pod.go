package host

import (
	"context"
	"slices"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// Stopped records that a container of an engine has ended. Its CPUs are held for the pod, or freed if it has no pod. Stopped does
// nothing if the grant belongs to a newer container of the same name, which has another cgroup path.
func (h *Host) Stopped(ctx context.Context, name, cgroup string) error {
	return h.operateOn(ctx, scope{name: name}, func(op *operation) error {
		g, k := op.info[name], op.groups[name]
		if g == nil || g.Engine.Cgroup != cgroup || k != nil && k.populated {
			return nil // a later operation reaps it after its last process has ended
		}
		if g.Engine.Pod == "" {
			return op.end(name)
		}
		g.State, g.Deadline = Held, 0
		return nil
	})
}

// ResizeOf resizes like Resize, but only the engine's container with the given cgroup. The error is hybrid.ErrUnknownID if a
// newer container has taken the name.
func (h *Host) ResizeOf(ctx context.Context, name, cgroup string, limit, guarantee hybrid.Milli) (before, after *Grant, err error) {
	return h.resize(ctx, name, cgroup, limit, guarantee)
}

// EndSandbox frees the CPUs that a pod holds for the containers of a sandbox. If processes of a container still run, a
// later operation frees its CPUs.
func (h *Host) EndSandbox(ctx context.Context, pod, sandbox string) error {
	return h.operateOn(ctx, scope{pod: pod}, func(op *operation) error {
		return op.endPods(func(e *Engine) bool { return e.Pod == pod && e.Sandbox == sandbox })
	})
}

func (op *operation) endPods(isOver func(*Engine) bool) error {
	for _, held := range op.node.Grants() {
		g := op.info[held.ID]
		if g.Engine.Pod == "" || !isOver(&g.Engine) {
			continue
		}
		if k := op.groups[g.ID]; k != nil && k.populated {
			g.Engine.Pod = ""
			continue
		}
		if err := op.end(g.ID); err != nil {
			return err
		}
		op.log.Info("ended with its pod", logName(g.ID, &g.Engine))
	}
	return nil
}

// Sync compares the grants with the running containers of an engine. It adopts running containers without a grant on
// their present CPUs. If these CPUs conflict with other grants, the container gets other CPUs, and a warning reports
// that. Sync frees the CPUs held for sandboxes that no longer exist. It moves no other containers.
func (h *Host) Sync(ctx context.Context, running []Allocation, sandboxes []string) error {
	var sound []Allocation
	for i := range running {
		planned := running[i]
		planned.PID = 0
		if err := planned.checkEngine(); err != nil { // this container must not stop the synchronization of the others
			h.log.Warn("cannot adopt a running container", logName(planned.ID, &planned.Engine), "error", err)
			continue
		}
		if err := h.resolveView(&running[i]); err != nil {
			return err
		}
		sound = append(sound, running[i])
		h.tops.learn(running[i].Engine.Cgroup)
	}
	running = sound
	return h.operate(ctx, func(op *operation) error {
		op.everyPod = true
		if err := op.logUnusable(); err != nil {
			return err
		}
		if err := op.endPods(func(e *Engine) bool { return !slices.Contains(sandboxes, e.Sandbox) }); err != nil {
			return err
		}
		if err := op.matchAll(running); err != nil {
			return err
		}
		for i := range running {
			if err := op.checkPlace(running[i].ID, running[i].Engine.Cgroup, 0); err != nil {
				op.log.Warn("cannot find a running container in its engine's cgroup", "error", err)
			}
		}
		return nil
	})
}

// matchAll matches running containers with their grants.
func (op *operation) matchAll(running []Allocation) error {
	op.observeNew(running)
	var strays []*Grant
	for i := range running {
		stray, err := op.matchRunning(&running[i])
		if err != nil {
			return err
		}
		strays = append(strays, stray...)
	}
	for _, g := range strays {
		op.placeStray(g)
	}
	return nil
}

// observeNew reads the cgroups of the containers that have no grant.
func (op *operation) observeNew(running []Allocation) {
	for i := range running {
		if a := &running[i]; op.info[a.ID] == nil {
			op.observeEngine(a.ID, a.Engine)
		}
	}
	op.assumeUnreadable()
}

// matchRunning matches a running container with its grant, or adopts it. If the container's present CPUs conflict with other
// grants, stray holds its grant, and the caller must plan other CPUs.
func (op *operation) matchRunning(a *Allocation) (stray []*Grant, err error) {
	if g := op.info[a.ID]; g != nil {
		return nil, op.updateKnown(g, a)
	}
	k := op.groups[a.ID]
	if k == nil || !k.populated {
		return nil, nil
	}
	if op.planOnly {
		return nil, op.planRunning(a)
	}
	g := &Grant{Spec: a.Spec, Engine: a.Engine, State: Running, Since: state.SinceBoot()}
	g.Request, g.View = a.Request, op.mountedView(a.ID, a.View)
	op.raiseHelpers(g)
	if err := op.store.SaveRequest(g); err != nil {
		return nil, err
	}
	adopted := op.adoptedGrant(a.ID, k.settings, op.otherCPUs(a.ID))
	recordMain(&adopted, a.PID)
	adopted.Request = a.Request // the request from the caller replaces the settings that the kernel has
	if err := op.node.Restore([]hybrid.Grant{adopted.Grant}); err != nil {
		return []*Grant{&adopted}, nil //nolint:nilerr // the caller plans the container again
	}
	op.info[a.ID] = &adopted
	op.log.Info("adopted", logName(a.ID, &a.Engine), "cpus", adopted.CPUs, "limit", adopted.Limit)
	return nil, nil
}

// updateKnown updates the grant of a known container. The container can have been restarted or resized without an
// event.
func (op *operation) updateKnown(g *Grant, a *Allocation) error {
	if g.Engine.Cgroup != a.Engine.Cgroup {
		delete(op.groups, g.ID)
		op.observeEngine(g.ID, a.Engine)
		op.assumeUnreadable()
	}
	g.Engine = a.Engine
	recordMain(g, a.PID)
	if k := op.groups[g.ID]; k != nil && k.populated {
		g.State, g.Deadline = Running, 0
	}
	// If this operation has adopted the container, its limit comes from the kernel. The request can be older than the container's last
	// resize, so it does not change this limit.
	if g.Limit == a.Limit && !needsOtherGuarantee(g, a) || op.before[g.ID] == nil {
		return nil
	}
	plan, err := op.node.PlanResize(g.ID, a.Limit, a.Guarantee)
	if err != nil {
		op.log.Warn("resized without Candor, and the new size does not fit", logName(g.ID, &g.Engine),
			"limit", a.Limit, "granted", g.Limit, "reason", nameRefusal(err, g))
		return nil
	}
	if more := plan.Grant.Exclusive.Minus(g.Exclusive); more.Overlaps(&op.avoid) {
		op.log.Warn("cannot apply a resize: another container cannot leave its CPUs", logName(g.ID, &g.Engine),
			"limit", a.Limit, "granted", g.Limit, "reason", op.stuck[0])
		return nil
	}
	op.log.Info("resized without Candor", logName(g.ID, &g.Engine), "limit", a.Limit, "was", g.Limit)
	return op.node.Commit(plan)
}

// recordMain records the first process of a container if no living first process is recorded. The record is missing if the candor
// process was killed before it saved the record.
func recordMain(g *Grant, pid int) {
	if pid == 0 || g.Main.Alive() {
		return
	}
	if first, err := state.ProcessOf(pid); err == nil {
		g.Main = first
	}
}

// needsOtherGuarantee reports whether the guarantee that a flexible container requests differs from the guarantee of its grant. A
// guarantee that is derived from CPU shares has an error of at most 1m.
func needsOtherGuarantee(g *Grant, a *Allocation) bool {
	differ := g.Guaranteed() - a.Guaranteed()
	return g.Class == hybrid.Flexible && a.Class == hybrid.Flexible && (differ < -1 || differ > 1)
}

// ConfirmStart records the first process of an engine's container, after the cgroup exists and before the program runs
// (pid 0: unknown). If the grant has changed since Admit, ConfirmStart writes the new settings to the cgroup. It adopts a
// container without a grant, as Sync does. The error is ErrElsewhere if the cgroup does not exist or does not contain the process.
func (h *Host) ConfirmStart(ctx context.Context, a Allocation, pid int) error {
	err := a.checkEngine()
	if err == nil {
		err = h.CheckEngineGroup(a.Engine.Cgroup)
	}
	if err != nil {
		return err
	}
	var main Process
	if pid != 0 {
		var err error
		if main, err = state.ProcessOf(pid); err != nil {
			return err
		}
	}
	return h.operateOn(ctx, scope{a.ID, a.Engine.Pod}, func(op *operation) error {
		op.subject, op.readsCPUs = a.ID, true
		if err := op.matchAll([]Allocation{a}); err != nil {
			return err
		}
		if err := op.checkPlace(a.ID, a.Engine.Cgroup, pid); err != nil {
			return err
		}
		if g := op.info[a.ID]; g != nil {
			g.Main = main
			op.learnWeightScale(g)
		}
		return nil
	})
}
