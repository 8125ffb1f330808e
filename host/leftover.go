package host

import "github.com/candor-project/candor/hybrid"

// A leftover is what an operation leaves to the next one of this process: where nobody has written the state since, and the
// machine is the same, that need not bring hundreds of grants to a new node. It is never more than what the state and the
// kernel say anyway: without it, the next operation finds the same.
type leftover struct {
	groups map[string]*group

	saved *savedState // that the rest goes with; nil: groups are all
	basis basis
	node  *hybrid.Node
	info  map[string]*Grant
}

// leave keeps what an operation that has succeeded leaves; with change, which has not failed either, its node too.
func (op *operation) leave(change error) {
	left := &leftover{groups: op.groups}
	if change == nil && op.isPlain() {
		left.saved, left.basis, left.node, left.info = op.saved, op.basis, op.node, op.asSaved()
	}
	op.Host.left.Store(left)
}

// isPlain reports whether a new node, to which the state's grants are restored, would be the one that there is.
func (op *operation) isPlain() bool {
	if len(op.info) != len(op.saved.Grants) || !cpusetKeepsAffinity() { // before Linux 6.2, who moves is looked up each time
		return false
	}
	for _, g := range op.saved.Grants {
		if op.info[g.ID] == nil {
			return false
		}
	}
	return !op.hasLost()
}

// asSaved is what is known of the grants, as it is read from the state.
func (op *operation) asSaved() map[string]*Grant {
	for _, g := range op.saved.Grants {
		if isNew := g != op.before[g.ID]; isNew || !g.equal(op.info[g.ID]) { // what is new, callers know by address
			now := *g
			op.info[g.ID] = &now
		}
	}
	return op.info
}

// isNow reports whether the node that was left is what the state says now.
func (l *leftover) isNow(op *operation, now basis) bool {
	return l.saved != nil && l.saved == op.saved && l.basis == now
}
