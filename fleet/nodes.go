package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// AddNode adds a node under an unused NodeID. The machine determines the CPUs, and capacity the amounts of the further resources, in the
// order of Options.Resources. Pass the same pointer for equal machines, so that their nodes share memory.
func (f *Fleet) AddNode(id NodeID, machine *topology.Machine, capacity []int64) error {
	switch {
	case id < 0 || id >= MaxNodes:
		return fmt.Errorf("node %d: must be a number from 0 to %d", id, MaxNodes-1)
	case f.hasNode(id):
		return fmt.Errorf("node %d: there is one already", id)
	}
	k, err := f.kindOf(machine, capacity)
	if err != nil {
		return fmt.Errorf("node %d: %w", id, err)
	}
	for int(id) >= len(f.nodes) {
		f.nodes = append(f.nodes, node{})
		f.summaries, f.refused = append(f.summaries, hybrid.Summary{}), append(f.refused, [maxRefusals]int32{})
		f.rows, f.versions = append(f.rows, worstRow), append(f.versions, 0)
		f.free, f.shares = append(f.free, make([]int64, len(capacity))...), append(f.shares, make([]int32, 1+len(capacity))...)
	}
	for i := range f.indexes {
		f.indexes[i].rows = f.rows
	}
	f.nodes[id] = node{Node: f.kinds[k].empty.NewLike(), kind: k}
	copy(f.freeOf(id), capacity)
	f.totals.Nodes++
	f.totals.Capacity += f.nodes[id].Capacity()
	f.refresh(id)
	return nil
}

// A kindKey identifies a kind.
type kindKey struct {
	machine  *topology.Machine
	capacity string
}

// kindOf returns the index of the kind of a machine with this capacity. It adds the kind if necessary.
func (f *Fleet) kindOf(machine *topology.Machine, capacity []int64) (int32, error) {
	key := kindKey{machine, fmt.Sprint(capacity)}
	if k, known := f.kindNumbers[key]; known {
		return k, nil
	}
	if len(capacity) != len(f.options.Resources) {
		return 0, fmt.Errorf("capacity of %d resources besides CPU: must be %d: %s", len(capacity), len(f.options.Resources), strings.Join(f.options.Resources, ", "))
	}
	for i, amount := range capacity {
		if amount < 0 || amount > MaxAmount {
			return 0, fmt.Errorf("%s %d: must be 0 to %d", f.options.Resources[i], amount, MaxAmount)
		}
	}
	empty, err := f.emptyNodeOf(machine)
	if err != nil {
		return 0, err
	}
	k := &kind{capacity: slices.Clone(capacity), empty: empty, weigher: newWeigher(int64(empty.Capacity()), capacity)}
	k.scale = newScale(&k.weigher)
	k.size = f.sizeOf(k)
	for i := range min(len(capacity), indexedResources) {
		if f.units[i] == 0 && capacity[i] > 0 {
			f.units[i] = 4096 / float64(capacity[i])
		}
	}
	f.queryVersion++ // sizeOf changed a size, so the fields of the size that depend on the query are outdated
	f.kindNumbers[key] = int32(len(f.kinds))
	f.kinds = append(f.kinds, k)
	return int32(len(f.kinds) - 1), nil
}

// emptyNodeOf returns a node of this machine without containers.
func (f *Fleet) emptyNodeOf(machine *topology.Machine) (*hybrid.Node, error) {
	if empty := f.emptyNodes[machine]; empty != nil {
		return empty, nil
	}
	empty, err := hybrid.NewNode(machine, f.options.Hybrid)
	if err == nil {
		f.emptyNodes[machine] = empty
	}
	return empty, err
}

// RemoveNode removes a node and returns its containers in the order of their arrival. Afterwards, the containers are on no node,
// and their ContainerIDs are free.
func (f *Fleet) RemoveNode(id NodeID) ([]ContainerID, error) {
	if !f.hasNode(id) {
		return nil, fmt.Errorf("node %d: there is none", id)
	}
	var containers []ContainerID
	for n := &f.nodes[id]; n.Len() > 0; {
		c := n.containers[n.Oldest()].container
		f.Release(c)
		containers = append(containers, c)
	}
	f.removeFromIndex(id)
	f.totals.Nodes--
	f.totals.Capacity -= f.nodes[id].Capacity()
	f.nodes[id] = node{}
	f.recordChange(id, true)
	return containers, nil
}

// ChangeNode changes the machine or the capacity of a node. It places the node's containers again, in the order of their arrival,
// and returns the containers that no longer fit. Afterwards, the returned containers are on no node.
func (f *Fleet) ChangeNode(id NodeID, machine *topology.Machine, capacity []int64) ([]ContainerID, error) {
	if !f.hasNode(id) {
		return nil, fmt.Errorf("node %d: there is none", id)
	}
	if _, err := f.kindOf(machine, capacity); err != nil {
		return nil, fmt.Errorf("node %d: %w", id, err)
	}
	containers, err := f.RemoveNode(id)
	if err != nil {
		return nil, err
	}
	if err := f.AddNode(id, machine, capacity); err != nil {
		return nil, err
	}
	unplaced := containers[:0]
	for _, c := range containers {
		r := f.Request(c)
		r.Resources = slices.Clone(r.Resources)
		f.setQuery(&r)
		if !f.hasRoom(id, &r) {
			unplaced = append(unplaced, c)
		} else if _, err := f.placeOn(c, id, &r); err != nil {
			unplaced = append(unplaced, c)
		}
	}
	return unplaced, nil
}
