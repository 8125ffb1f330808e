package fleet

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/hybrid"
)

// Choose returns the best node for a container and changes nothing. Errors: hybrid.ErrNoCapacity if no node has room;
// hybrid.ErrViewImpossible if nodes have room, but no node has the CPUs for the view of a strict sensitive container; hybrid.ErrBadRequest.
func (f *Fleet) Choose(r *Request) (NodeID, error) {
	f.setQuery(r)
	if err := f.checkRequest(r); err != nil {
		return NoNode, err
	}
	return f.chooseNode()
}

// Place places a container on the best node. Errors: those of Choose, and hybrid.ErrIDTaken if the ContainerID is in use. On an error Place
// changes nothing.
func (f *Fleet) Place(c ContainerID, r *Request) (Placement, error) {
	switch {
	case c < 0 || c >= MaxContainers:
		return Placement{Node: NoNode}, fmt.Errorf("%w: container %d: must be a number from 0 to %d", hybrid.ErrBadRequest, c, MaxContainers-1)
	case f.NodeOf(c) != NoNode:
		return Placement{Node: NoNode}, hybrid.ErrIDTaken
	}
	id, err := f.Choose(r)
	if err != nil {
		return Placement{Node: NoNode}, err
	}
	cost, err := f.placeOn(c, id, r)
	if err != nil {
		id = NoNode
	}
	return Placement{id, cost}, err
}

// Release removes a container. It returns the cost of the removal, and reports whether the container existed.
func (f *Fleet) Release(c ContainerID) (hybrid.Cost, bool) {
	id := f.NodeOf(c)
	if id == NoNode {
		return hybrid.Cost{}, false
	}
	n, released := &f.nodes[id], &f.containers[c]
	cost, _ := n.Remove(released.handle)
	free := f.freeOf(id)
	for i, amount := range f.amountsOf(c) {
		free[i] += amount
	}
	f.removeFromNode(id, released.handle)
	released.node = NoNode
	f.updateTotals(&released.request, &cost, -1)
	f.refresh(id)
	if n.Len() == 0 {
		f.totals.Used--
	}
	return cost, true
}

// checkRequest returns an error if the current request is invalid.
func (f *Fleet) checkRequest(r *Request) error {
	if err := f.request.Check(); err != nil {
		return err
	}
	if n := len(r.Resources); n != 0 && n != len(f.options.Resources) {
		return fmt.Errorf("%w: %d resources besides CPU: must be %d: %s", hybrid.ErrBadRequest, n, len(f.options.Resources), strings.Join(f.options.Resources, ", "))
	}
	for i, amount := range r.Resources {
		if amount < 0 || amount > MaxAmount {
			return fmt.Errorf("%w: %s %d: must be 0 to %d", hybrid.ErrBadRequest, f.options.Resources[i], amount, MaxAmount)
		}
	}
	return nil
}

// placeOn places the container of the current request on a node.
func (f *Fleet) placeOn(c ContainerID, id NodeID, r *Request) (hybrid.Cost, error) {
	n := &f.nodes[id]
	f.prefetchPlacement(id)
	handle, cost, err := n.Place(&f.request)
	if err != nil {
		return cost, err
	}
	if n.Len() == 1 {
		f.totals.Used++
	}
	for int(c) >= len(f.containers) {
		f.containers = append(f.containers, container{node: NoNode})
		for range f.options.Resources {
			f.amounts = append(f.amounts, 0)
		}
	}
	f.containers[c] = container{id, handle, *r}
	f.containers[c].request.Resources = nil
	amounts, free := f.amountsOf(c), f.freeOf(id)
	clear(amounts)
	copy(amounts, r.Resources)
	for i, amount := range amounts {
		free[i] -= amount
	}
	f.addToNode(c, id, handle, r.Spread)
	f.updateTotals(r, &cost, 1)
	f.refresh(id)
	return cost, nil
}

// updateTotals adds a container to the totals (sign 1), or subtracts the container (sign -1).
func (f *Fleet) updateTotals(r *Request, cost *hybrid.Cost, sign int) {
	f.totals.Containers += sign
	if r.Class == hybrid.Sensitive {
		f.totals.Sensitive += hybrid.Milli(sign) * f.guaranteedTime(r)
	} else {
		f.totals.Guaranteed += hybrid.Milli(sign) * f.guaranteedTime(r)
	}
	f.totals.Shared += cost.Shared
	f.totals.Moves += int64(cost.Moves)
}

// guaranteedTime returns the CPU time of a container that counts toward a node's capacity.
func (f *Fleet) guaranteedTime(r *Request) hybrid.Milli {
	return hybrid.GuaranteedTime(r.Class, r.Limit, r.Guarantee)
}
