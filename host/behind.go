package host

import (
	"errors"
	"path/filepath"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// leaveBehind is for a flexible container of an engine whose CPUs were refused since somebody else
// keeps them from the group above. It gets what of them that group has, or stays where it is, and
// nobody else has to wait for it. It is false where that cannot be: for other refusals, and on fresh
// CPUs, which become somebody's own by this operation.
func (op *operation) leaveBehind(w write, fresh cpuset.Set, refused error) bool {
	g, grant := op.groups[w.group], op.info[w.group]
	if g == nil || grant == nil || !g.isEngines() || grant.Class != hybrid.Flexible || !errors.Is(refused, cgroup.ErrUnavailable) {
		return false
	}
	above, _, err := op.tree.Foreign(w.group, filepath.Dir(g.engine.Cgroup)).Effective()
	part := w.cpus.Intersect(above)
	if err == nil && !part.IsEmpty() && g.SetCPUs(part, cpuset.Set{}) == nil {
		g.settings.CPUs = part
	}
	if g.settings.CPUs.Overlaps(&fresh) {
		return false
	}
	op.behind[w.group] = true
	op.log.Error("not on the CPUs that it is granted: the group above has not all of them", "container", w.group,
		"has", g.settings.CPUs, "granted", w.cpus, "error", refused)
	return true
}
