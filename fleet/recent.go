package fleet

import "slices"

// Containers come in crowds: of those that Google's cell was given in 2011, four in five asked for just what
// the one before them did. So the fleet keeps the answers to the questions that were asked lately: the
// best nodes then, and a bound that no other node was better than. The nodes that have changed since
// are looked at anew; while one of all these is better than the bound, it is the best of all nodes.

const (
	recentSets    = 32  // of answers
	recentAnswers = 4   // of each
	recentChanges = 128 // of nodes; an answer that is older is not brought up to date
	mostKnown     = 32  // nodes of an answer
)

// An answer is what is known of a question.
type answer struct {
	asked     Request // with resources of its own
	known     []finding
	rest      finding // no node that is not known is better
	upTo      int64   // changes of nodes until then are in it
	used      int64   // the decision that used it last
	want      int     // nodes that were looked for
	served    int     // questions that they have answered
	exhausted bool    // none of them is left
}

// recent are the answers, and the changes since.
type recent struct {
	answers [recentSets][recentAnswers]answer // a question belongs to one set
	current *answer                           // to the question that is asked
	changed [recentChanges]NodeID             // the latest, in a ring
	changes int64
}

// note notes that a node has changed, was added or removed.
func (r *recent) note(id NodeID) {
	r.changed[r.changes%recentChanges] = id
	r.changes++
}

// find returns the answer to a question, or else the one of its set that was used longest ago.
func (r *recent) find(q *Request) (a *answer, found bool) {
	set := &r.answers[q.hash()%recentSets]
	a = &set[0]
	for i := range set {
		switch other := &set[i]; {
		case other.used > 0 && other.asked.same(q):
			return other, true
		case other.used < a.used:
			a = other
		}
	}
	return a, false
}

// hash returns a number that is the same for requests that ask the same.
func (r *Request) hash() uint64 {
	const golden = 0x9e3779b97f4a7c15 // spreads the bits upwards
	h := (uint64(r.Limit)<<1|uint64(r.Class))*golden ^ uint64(r.Guarantee)
	h = h*golden ^ r.Spread
	for _, amount := range r.Resources {
		h = h*golden ^ uint64(amount)
	}
	return h * golden >> 32
}

// same reports whether two requests ask the same.
func (r *Request) same(q *Request) bool {
	return r.Limit == q.Limit && r.Guarantee == q.Guarantee && r.Class == q.Class && r.Policy == q.Policy &&
		r.Wish == q.Wish && r.Spread == q.Spread && slices.Equal(r.Resources, q.Resources)
}

// answer returns the best node for the question that is asked, if that follows from what is known of it.
func (f *Fleet) answer() (best finding, ok bool) {
	a, found := f.recent.find(f.question.Request)
	f.recent.current = a
	if !found {
		kept := append(a.asked.Resources[:0], f.question.Resources...)
		a.asked = *f.question.Request
		a.asked.Resources = kept
		a.want, a.served, a.exhausted = 0, 0, false
	}
	a.used = f.decision
	if !found || f.recent.changes-a.upTo > recentChanges {
		return finding{}, false
	}
	for ; a.upTo < f.recent.changes; a.upTo++ {
		f.update(a, f.recent.changed[a.upTo%recentChanges])
	}
	if a.beats(a.rest.score, a.rest.id) {
		a.served++
		return a.known[0], true
	}
	a.exhausted = true
	return finding{never, Nowhere}, a.rest.score == never && len(a.known) == 0
}

// beats reports whether a node is known than which one with a score and a number is not better.
func (a *answer) beats(s score, id NodeID) bool {
	return len(a.known) > 0 && !a.known[0].yields(s, id)
}

// update looks anew at a node that has changed.
func (f *Fleet) update(a *answer, id NodeID) {
	for i := range a.known {
		if a.known[i].id == id {
			a.known = slices.Delete(a.known, i, i+1)
			break
		}
	}
	if !f.has(id) {
		return
	}
	if !f.question.admits(&f.rows[id]) {
		return
	}
	f.best = a.rest
	if s := f.evaluate(id); f.best.yields(s, id) {
		a.learn(finding{s, id})
		if len(a.known) > mostKnown {
			if last := a.known[mostKnown]; a.rest.yields(last.score, last.id) {
				a.rest = last
			}
			a.known = a.known[:mostKnown]
		}
	}
}

// learn adds a node to those that are known, the best first.
func (a *answer) learn(one finding) {
	at := len(a.known)
	for at > 0 && a.known[at-1].yields(one.score, one.id) {
		at--
	}
	a.known = slices.Insert(a.known, at, one)
}

// wants returns how many nodes to find, so that the next questions of the same kind find some: more where
// those found last were too few, and no more than were of use where they got too old.
func (a *answer) wants(q *question) int {
	switch {
	case !q.plain: // every node has to be asked itself
		a.want = 1
	case a.exhausted:
		a.want = min(4*a.want, mostKnown)
	default:
		a.want = min(1+a.served, max(a.want, 1))
	}
	a.served, a.exhausted = 0, false
	return a.want
}
