package hybrid

import "fmt"

// checkRequest refuses requests that cannot be meant, and ids that are taken.
func (n *Node) checkRequest(r *Request) error {
	if r.ID == "" {
		return &Refusal{r.ID, ErrBadRequest, "the id is empty"}
	}
	if int(r.Class) >= len(classNames) || int(r.Policy) >= len(policyNames) || int(r.Wish) >= len(wishNames) {
		return &Refusal{r.ID, ErrBadRequest, "class, policy or topology is none of the known ones"}
	}
	if _, taken := n.byID[r.ID]; taken {
		return &Refusal{r.ID, ErrIDTaken, "a container with this id is on the node"}
	}
	return n.checkAmounts(r)
}

// checkAmounts refuses limits and guarantees that cannot be meant.
func (n *Node) checkAmounts(r *Request) error {
	bad := func(format string, args ...any) error {
		return &Refusal{r.ID, ErrBadRequest, fmt.Sprintf(format, args...)}
	}
	switch {
	case r.Limit == 0 && r.Class == Sensitive:
		return bad("a sensitive container needs a limit: its view is as large as that")
	case r.Limit != 0 && (r.Limit < MinLimit || r.Limit > MaxLimit):
		return bad("limit %dm: want %dm to %s", r.Limit, MinLimit, MaxLimit)
	case r.Class == Sensitive && r.Guarantee != 0 && r.Guarantee != r.Limit:
		return bad("a sensitive container is guaranteed its limit, %s, not %s", r.Limit, r.Guarantee)
	case r.Guarantee < NoGuarantee || r.Guarantee > MaxLimit:
		return bad("guarantee %dm: want 0 to %s", r.Guarantee, MaxLimit)
	case r.Limit > 0 && r.Guarantee > r.Limit:
		return bad("guarantee %s is above the limit %s", r.Guarantee, r.Limit)
	}
	return nil
}

func (n *Node) unknown(id string) error {
	return &Refusal{id, ErrUnknownID, "no container with this id is on the node"}
}

// refuse says in words, with figures, why a slot's request was refused. The
// slot's promise is counted, its CPUs are not.
func (n *Node) refuse(s int32, kind error) error {
	slot := &n.slots[s]
	r := &slot.request
	reason := ""
	if kind == ErrViewImpossible {
		reason = n.whyNoView(r)
	} else {
		reason = n.whyNoCapacity(r)
	}
	return &Refusal{r.ID, kind, reason}
}

func (n *Node) whyNoCapacity(r *Request) string {
	asked := r.guaranteed()
	sensitive, flexible := n.sensitive, n.flexible.need
	if r.Class == Sensitive {
		sensitive -= asked
	} else {
		flexible -= asked
	}
	left := n.capacity() - sensitive - max(flexible, n.options.MinShared)
	if r.Class == Flexible {
		left = n.capacity() - sensitive - flexible
	}
	if asked > left {
		reason := fmt.Sprintf("wants %s CPUs, %s of %s are left (sensitive containers have %s, flexible ones are guaranteed %s",
			asked, max(left, 0), n.capacity(), sensitive, flexible)
		if n.options.MinShared > 0 {
			reason += fmt.Sprintf(", %s stays shared", n.options.MinShared)
		}
		return reason + ")"
	}
	if r.Class == Flexible && r.Wish != Prefer && r.Wish != AnyCPUs {
		return fmt.Sprintf("no domain of the wish %s has %s CPUs left for flexible containers", r.Wish, asked)
	}
	return fmt.Sprintf("wants %s CPUs, but the last CPU that flexible containers can run on stays theirs", asked)
}

func (n *Node) whyNoView(r *Request) string {
	whole, fraction := r.Limit/1000, r.Limit%1000
	var room Milli
	for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
		room = max(room, n.load[cpu].room())
	}
	what := fmt.Sprintf("wants %d whole CPUs", whole)
	if fraction > 0 {
		what += fmt.Sprintf(" and a fraction of %dm", fraction)
	}
	what += fmt.Sprintf("; %d CPUs are free of sensitive containers", n.shared.Count())
	if fraction > 0 {
		what += fmt.Sprintf(", the largest room on a fractional CPU is %dm", room)
	}
	switch r.Wish {
	case SingleNUMA:
		what += "; the wish single-numa allows one NUMA node only"
	case SingleL3:
		what += "; the wish single-l3 allows one L3 domain only"
	case WholeCores:
		what += fmt.Sprintf("; the wish whole-cores takes all %d CPUs of a core or none", n.threads)
	}
	return what
}
