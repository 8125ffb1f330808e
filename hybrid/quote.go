package hybrid

// This file is what whoever chooses among thousands of nodes asks one of them.

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

// IsPlain reports whether no wish confines the container.
func (r *Request) IsPlain() bool { return r.Wish == Prefer || r.Wish == AnyCPUs }

// Algorithm returns how the node picks CPUs.
func (n *Node) Algorithm() Algorithm { return n.options.Algorithm }

// Options returns what the node was made with, and the defaults of what was left out.
func (n *Node) Options() Options { return n.options }

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

// A Quote is what a container would cost before fractions of others move to lower
// the shared time. Cost says what it costs in the end, for more work.
type Quote struct {
	Cost        // Moves are those without which there is no room
	Direct bool // nobody has to move, and if no wish confines the container its view is not too wide for want of room
}

// Quote returns what a container would cost. The error is that of Cost. It changes nothing.
func (n *Node) Quote(r *Request) (q Quote, err error) {
	n.start()
	if err := n.checkDirect(r); err != nil {
		return q, err.(*Refusal).Kind
	}
	s := n.newSlot(r)
	n.promise(s)
	direct := n.options.Algorithm == Candor && r.Class == Sensitive && r.IsPlain()
	fits := n.sensitive+n.nodeNeed() <= n.capacity()
	if direct && fits && n.placeDirectly(s, &n.usable) {
		q = Quote{n.costSoFar(s), true}
	} else if err = n.allocate(s); err == nil {
		q.Cost = n.costSoFar(s)
		q.Direct = !direct && q.Moves == 0
	}
	n.undo(0)
	n.unpromise(s)
	n.dropSlot(s)
	return q, err
}
