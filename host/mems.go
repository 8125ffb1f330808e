package host

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/topology"
)

// Mems returns the memory nodes for the CPUs of a grant: for each NUMA node of these CPUs, the nearest node that the parent of the
// container's cgroup allows.
func (h *Host) Mems(g *Grant) (cpuset.Set, error) {
	machine, err := h.machine.get()
	if err != nil {
		return cpuset.Set{}, err
	}
	allowed, err := h.allowedMems(g)
	if err != nil {
		return cpuset.Set{}, err
	}
	return memsOf(machine, &g.CPUs, &allowed), nil
}

// mems returns the memory nodes that an operation writes to the group of g. Unlike Mems, it returns no error: if the parent of the cgroup
// disappears during the operation, the container ends too, and the result does not matter.
func (op *operation) mems(g *Grant) cpuset.Set {
	allowed, err := op.allowedMems(g)
	if err != nil {
		allowed = op.basis.mems
	}
	return memsOf(op.node.Machine(), &g.CPUs, &allowed)
}

// allowedMems returns the memory nodes of the parent of the container's cgroup. If the parent does not exist yet or has an empty
// cpuset (possible on v1), it returns the memory nodes of the next ancestor.
func (h *Host) allowedMems(g *Grant) (cpuset.Set, error) {
	for path := g.Engine.Cgroup; path != ""; {
		if path = filepath.Dir(path); cgroup.CheckPath(path) != nil {
			break // the root
		}
		_, mems, err := h.tree.EngineGroup(g.ID, path).Effective()
		if err == nil && !mems.IsEmpty() {
			return mems, nil
		}
		if err != nil && !errors.Is(err, cgroup.ErrNoGroup) && !errors.Is(err, fs.ErrNotExist) {
			return mems, err
		}
	}
	_, mems, err := h.tree.Effective()
	return mems, err
}

// memsOf returns the memory nodes nearest to CPUs, out of the allowed nodes.
func memsOf(m *topology.Machine, cpus, allowed *cpuset.Set) (mems cpuset.Set) {
	for i := range m.Nodes {
		if m.Nodes[i].CPUs.Overlaps(cpus) {
			mems = mems.Union(nearestMems(m, i, allowed))
		}
	}
	return mems
}

// nearestMems returns the allowed memory node that is nearest to the NUMA node m.Nodes[node]. The kernel lists only nodes with memory in a
// cpuset, so an allowed node has memory, even if it got the memory after the topology was read.
func nearestMems(m *topology.Machine, node int, allowed *cpuset.Set) cpuset.Set {
	if id := m.Nodes[node].ID; allowed.Contains(id) {
		return cpuset.Of(id)
	}
	for _, id := range m.MemoryOrder(node) {
		if allowed.Contains(id) {
			return cpuset.Of(id)
		}
	}
	return *allowed
}
