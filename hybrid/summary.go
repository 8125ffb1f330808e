package hybrid

// This file is what whoever chooses among thousands of nodes asks each of them.

// Check says what is wrong with a request, but for its id: a *Refusal of kind
// ErrBadRequest, or nil.
func (r *Request) Check() error {
	if int(r.Class) >= len(classNames) || int(r.Policy) >= len(policyNames) || int(r.Wish) >= len(wishNames) {
		return bad(r.ID, "class %v, policy %v or topology %v is none of the known ones", r.Class, r.Policy, r.Wish)
	}
	return (*Node)(nil).checkAmounts(r)
}

// Guaranteed returns the CPU time that counts towards a node's capacity: the
// limit of a sensitive container, the guarantee of a flexible one.
func (r *Request) Guaranteed() Milli { return r.guaranteed() }

// Capacity returns the CPU time of the usable CPUs.
func (n *Node) Capacity() Milli { return n.total }

// Free returns the CPU time that containers of a class can still be guaranteed: a
// request for more is refused for lack of capacity. It is below 0 on a node that has lost CPUs.
func (n *Node) Free(class Class) Milli {
	if class == Flexible {
		return n.total - n.sensitive - n.flexible.need
	}
	return n.total - n.sensitive - n.nodeNeed()
}

// Quote returns what a container would cost before fractions of others move to
// lower the shared time (Cost says what it costs in the end, for more work). Its Moves
// are those without which there is no room. The error is that of Cost. It changes nothing.
func (n *Node) Quote(r *Request) (Cost, error) {
	n.start()
	if err := n.checkRequest(r); err != nil {
		return Cost{}, err.(*Refusal).Kind
	}
	s := n.newSlot(r)
	n.promise(s)
	var cost Cost
	err := n.allocate(s)
	if err == nil {
		cost = n.costSoFar(s)
	}
	n.undo(0)
	n.unpromise(s)
	n.dropSlot(s)
	return cost, err
}
