package host

import "context"

// An operation about one container does not read all that the kernel has for every other one: with hundreds of
// containers that is most of its time, and a container waits for it. Of the others that run it looks at their CPUs,
// which nobody may have got wrong. Their other settings, and whether they still run, are for the operation that looks at
// all, such as Reconcile.

// about is what an operation is about: a container, or with a pod all of that pod.
type about struct{ name, pod string }

// operateOn is operate for an operation that is about one container.
func (h *Host) operateOn(ctx context.Context, on about, change func(*operation) error) error {
	return outside(func() error { return h.locked(ctx, on, change) })
}

// glance looks at the group of a container that the operation is not about: it is taken to have what it was granted, if
// it has its CPUs. Otherwise, and for containers without a pod, whose end nobody tells, it is nil.
func (op *operation) glance(g *Grant) *group {
	isClose := op.about == about{} || g.ID == op.about.name || g.Engine.Pod == op.about.pod
	if isClose || g.State != Running || g.Engine.Pod == "" || g.Mems {
		return nil
	}
	k := &group{Group: op.tree.Foreign(g.ID, g.Engine.Cgroup), populated: true, engine: g.Engine}
	if cpus, err := k.CPUs(); err != nil || cpus != g.CPUs {
		return nil
	}
	k.settings = op.settings(g)
	k.settings.Mems = op.mems
	return k
}
