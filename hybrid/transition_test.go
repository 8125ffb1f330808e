package hybrid_test

import (
	"fmt"
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// checkTransition returns an error if the plan broke a promise to a container, or differs from the state after the commit.
func checkTransition(op operation, plan *hybrid.Plan, before, after state) error {
	if plan.Op != op.kind {
		return fmt.Errorf("a plan of kind %v", plan.Op)
	}
	if plan.SharedBefore != before.shared || plan.Shared != after.shared {
		return fmt.Errorf("the plan has the shared time %v -> %v, is %v -> %v", plan.SharedBefore, plan.Shared, before.shared, after.shared)
	}
	if err := checkOwn(op, plan, before, after); err != nil {
		return err
	}
	moved, err := checkOthers(op, plan, before, after)
	if err != nil {
		return err
	}
	if bound := maxMoves(op, before.options); moved > plan.Moves || plan.Moves > bound {
		return fmt.Errorf("%d moves, the plan has %d, at most %d are allowed", moved, plan.Moves, bound)
	}
	if before.options.Algorithm == hybrid.Paper && plan.Moves > 0 {
		return fmt.Errorf("%d moves under paper", plan.Moves)
	}
	return nil
}

// maxMoves returns the maximum number of fractions that an operation may move.
func maxMoves(op operation, o hybrid.Options) int {
	number := func(n, byDefault int) int {
		switch n {
		case 0:
			return byDefault
		case hybrid.NoMoves:
			return 0
		}
		return n
	}
	moves := number(o.Moves, hybrid.DefaultMoves)
	if op.kind == hybrid.OpRelease {
		return moves
	}
	return max(moves, number(o.RescueMoves, hybrid.DefaultRescueMoves))
}

func find(grants []hybrid.Grant, id string) int {
	return slices.IndexFunc(grants, func(g hybrid.Grant) bool { return g.ID == id })
}

// checkOwn checks that the grant of the operation's container matches the plan and the request.
func checkOwn(op operation, plan *hybrid.Plan, before, after state) error {
	id := op.request.ID
	was, is := find(before.grants, id), find(after.grants, id)
	switch op.kind {
	case hybrid.OpRelease:
		if is >= 0 || grantString(plan.Grant) != grantString(before.grants[was]) {
			return fmt.Errorf("the plan released %v", grantString(plan.Grant))
		}
		return nil
	case hybrid.OpAllocate:
		if is != len(after.grants)-1 || plan.Grant.Request != op.request {
			return fmt.Errorf("the plan is for %+v, position %d", plan.Grant.Request, is)
		}
	default:
		if is != was || grantString(plan.Before) != grantString(before.grants[was]) {
			return fmt.Errorf("the plan has %s before, position %d -> %d", grantString(plan.Before), was, is)
		}
	}
	if grantString(plan.Grant) != grantString(after.grants[is]) {
		return fmt.Errorf("the plan grants %s", grantString(plan.Grant))
	}
	if op.kind == hybrid.OpResize {
		if g := after.grants[is]; g.Limit != op.request.Limit || guaranteed(g.Request) != guaranteed(op.request) && g.Class == hybrid.Flexible {
			return fmt.Errorf("limit %v, guarantee %v after the resize", g.Limit, g.Guarantee)
		}
		return checkResize(before.options, before.grants[was], after.grants[is])
	}
	return nil
}

// checkResize checks that a container that grows keeps all exclusive CPUs, and that a container that shrinks gets no new exclusive CPUs.
func checkResize(o hybrid.Options, was, is hybrid.Grant) error {
	if was.Class == hybrid.Flexible || o.Algorithm == hybrid.Paper {
		return nil
	}
	kept := was.Exclusive.Intersect(is.Exclusive)
	if kept.Count() < min(was.Exclusive.Count(), is.Exclusive.Count()) || is.Limit >= was.Limit && kept != was.Exclusive {
		return fmt.Errorf("resize %v -> %v moves exclusive CPUs: %v -> %v", was.Limit, is.Limit, was.Exclusive, is.Exclusive)
	}
	return nil
}

// checkOthers checks that the plan lists exactly the other grants that change, in order, and that no running container loses a promise. It
// returns the number of CPUs that sensitive containers had to leave.
func checkOthers(op operation, plan *hybrid.Plan, before, after state) (moved int, err error) {
	var listed, changed []string
	for _, c := range plan.Others {
		listed = append(listed, grantString(c.Before)+"\n -> "+grantString(c.After)+"\n")
	}
	arrived := 0
	for _, was := range before.grants {
		if was.ID == op.request.ID {
			continue
		}
		i := find(after.grants, was.ID)
		if i < arrived {
			return 0, fmt.Errorf("%s is at position %d", was.ID, i)
		}
		arrived = i
		is := after.grants[i]
		if a, b := grantString(was), grantString(is); a != b {
			changed = append(changed, a+"\n -> "+b+"\n")
		}
		if err := checkPromise(was, is); err != nil {
			return 0, fmt.Errorf("%s: %w", was.ID, err)
		}
		if left := was.CPUs.Minus(is.CPUs); was.Class == hybrid.Sensitive {
			moved += left.Count()
		}
	}
	if !slices.Equal(listed, changed) {
		return 0, fmt.Errorf("the plan lists these changes of others:\n%v\nthese happen:\n%v", listed, changed)
	}
	return moved, nil
}

// checkPromise checks that the operation of another container changes neither the request of a container nor the promise behind it.
func checkPromise(was, is hybrid.Grant) error {
	if was.Request != is.Request || was.Lost != is.Lost || was.Quota != is.Quota && len(is.Fractions) > 0 {
		return fmt.Errorf("became %s", grantString(is))
	}
	if was.Class == hybrid.Flexible {
		return nil
	}
	if was.CPUs.Count() != is.CPUs.Count() {
		return fmt.Errorf("view of %v -> %v", was.CPUs, is.CPUs)
	}
	if !was.Exclusive.SubsetOf(&is.Exclusive) {
		return fmt.Errorf("exclusive CPUs %v -> %v", was.Exclusive, is.Exclusive)
	}
	if was.Immovable && was.CPUs != is.CPUs {
		return fmt.Errorf("immovable, CPUs %v -> %v", was.CPUs, is.CPUs)
	}
	return nil
}
