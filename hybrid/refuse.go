package hybrid

import (
	"fmt"

	"github.com/candor-project/candor/cpuset"
)

// checkRequest refuses requests that cannot be meant, and ids that are taken.
func (n *Node) checkRequest(r *Request) error {
	if r.ID == "" {
		return bad(r.ID, "the id is empty")
	}
	if int(r.Class) >= len(classNames) || int(r.Policy) >= len(policyNames) || int(r.Wish) >= len(wishNames) {
		return bad(r.ID, "class %v, policy %v or topology %v is none of the known ones", r.Class, r.Policy, r.Wish)
	}
	if _, taken := n.byID[r.ID]; taken {
		return &Refusal{ID: r.ID, Kind: ErrIDTaken, Text: "a container with this id is on the node"}
	}
	return n.checkAmounts(r)
}

// checkAmounts refuses limits and guarantees that cannot be meant.
func (n *Node) checkAmounts(r *Request) error {
	switch {
	case r.Limit == 0 && r.Class == Sensitive:
		return bad(r.ID, "a sensitive container needs a limit: its view is as large as that")
	case r.Limit != 0 && (r.Limit < MinLimit || r.Limit > MaxLimit):
		return bad(r.ID, "limit %dm: want %dm to %s", r.Limit, MinLimit, cpuTime(MaxLimit))
	case r.Class == Sensitive && r.Guarantee != 0 && r.Guarantee != r.Limit:
		return bad(r.ID, "a sensitive container is guaranteed its limit, %s, not %s", r.Limit, r.Guarantee)
	case r.Guarantee < NoGuarantee || r.Guarantee > MaxLimit:
		return bad(r.ID, "guarantee %dm: want 0 to %s", r.Guarantee, cpuTime(MaxLimit))
	case r.Limit > 0 && r.Guarantee > r.Limit:
		return bad(r.ID, "guarantee %s is above the limit %s", r.Guarantee, r.Limit)
	}
	return nil
}

func bad(id, format string, args ...any) error {
	return &Refusal{ID: id, Kind: ErrBadRequest, Text: fmt.Sprintf(format, args...)}
}

func (n *Node) unknown(id string) error {
	return &Refusal{ID: id, Kind: ErrUnknownID, Text: "no container with this id is on the node"}
}

// refuse finds out what was missing for a slot's request. The slot's promise is
// counted; of CPUs it has what it had before.
func (n *Node) refuse(s int32, kind error) error {
	request := n.slots[s].request()
	r := &Refusal{ID: request.ID, Kind: kind, Wish: request.Wish, Wanted: request.guaranteed(), Flexible: n.flexible.need}
	if kind == ErrNoCapacity && n.lacksTime(r, &request) {
		r.Cause = CauseTime
		return r
	}
	r.Free = n.available()
	if request.Class == Flexible {
		r.Flexible -= r.Wanted
		r.Cause = CauseFlexible
		if n.slots[s].domain != wholeNode || request.Wish.isDomain() {
			r.Cause, r.Domain = CauseWish, n.mostFree(request.Wish, &r.Free, &cpuset.Set{})
		}
		return r
	}
	n.lacksCPUs(r, s)
	return r
}

// lacksTime reports whether it is CPU time that a request lacks, and how much
// there is. The request itself is counted among the promises.
func (n *Node) lacksTime(r *Refusal, request *Request) bool {
	r.Capacity, r.MinShared = n.capacity(), n.options.MinShared
	r.Promised = n.sensitive
	if request.Class == Sensitive {
		r.Promised -= r.Wanted
		r.Left = r.Capacity - r.Promised - max(r.Flexible, r.MinShared)
	} else {
		r.Flexible -= r.Wanted
		r.Left = r.Capacity - r.Promised - r.Flexible
	}
	if r.Wanted > r.Left {
		r.Left = max(r.Left, 0)
		return true
	}
	*r = Refusal{ID: r.ID, Kind: r.Kind, Wish: r.Wish, Wanted: r.Wanted, Flexible: n.flexible.need}
	return false
}

// lacksCPUs finds out which CPUs a sensitive container lacks.
func (n *Node) lacksCPUs(r *Refusal, s int32) {
	slot := &n.slots[s]
	r.Whole = max(0, int(slot.Limit/1000)-slot.exclusive.Count())
	r.Fraction = slot.Limit % 1000
	for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
		r.Room = max(r.Room, n.load[cpu].room())
	}
	free := r.Free.Count()
	wishes := slot.Wish.isDomain() && slot.Policy == Strict
	if wishes {
		holds := slot.exclusive.Set()
		r.Domain = n.mostFree(slot.Wish, &r.Free, &holds)
	}
	switch {
	case wishes && r.Domain < free:
		r.Cause = CauseWish
	case r.Whole > free:
		r.Cause = CauseWhole
	case r.Fraction > 0 && r.Whole == free && r.Room < r.Fraction:
		r.Cause = CauseFraction
	case wishes:
		r.Cause = CauseWish
	default:
		r.Cause = CauseFlexible
	}
}

// isDomain reports whether a wish confines a container to a domain.
func (w Wish) isDomain() bool { return w == SingleNUMA || w == SingleL3 || w == WholeCores }

// mostFree returns the most CPUs of free that one domain of a wish has; of a container that holds CPUs already, the
// domain where those are.
func (n *Node) mostFree(wish Wish, free, holds *cpuset.Set) int {
	domains := n.numas
	switch wish {
	case SingleL3:
		domains = n.l3s
	case WholeCores:
		return n.wholeCores.CountIn(free)
	}
	most := 0
	for i := range domains {
		if holds.SubsetOf(&domains[i]) {
			most = max(most, free.CountIn(&domains[i]))
		}
	}
	return most
}
