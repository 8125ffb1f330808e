package fleet

import "slices"

// Equal requests arrive in groups: of the containers of Google's cell in 2011, four in five repeated the previous request. So the fleet
// caches the state of the searches for recent questions: the unopened blocks and the nodes that were not chosen. It adds the nodes that
// have changed since, and resumes the search.

const (
	recentSets    = 32  // of answers
	recentAnswers = 4   // of each
	recentChanges = 256 // of nodes; an older answer restarts
)

// An answer is the state of the search for a question.
type answer struct {
	asked Request    // with resources of its own
	rest  candidates // contains every node that can take the container, and the best node; changed nodes are in it twice
	upTo  int64      // changes of nodes until then are in it
	began int64      // shelf.gives at the time

	roomy    NodeID // a guess at a node with room for it, to be checked
	roomless int64  // number of changes after which no node had room; after 0 changes there was no node
}

// An answerSet is a set of a set-associative cache: a question belongs to one set.
type answerSet struct {
	hashes  [recentAnswers]uint64
	used    [recentAnswers]int64 // the decisions that used them last
	answers [recentAnswers]answer
}

// recent are the answers, and the changes since.
type recent struct {
	sets    [recentSets]answerSet
	changed [recentChanges]change // the latest, in a ring
	changes int64

	// Between begin and keep:
	room heap // where the candidates are
	own  heap // where they will be
}

// A change is the change of a node.
type change struct {
	id      NodeID
	version uint32 // after it
	gone    bool
}

// note notes that a node has changed, was added or removed.
func (f *Fleet) note(id NodeID, gone bool) {
	f.versions[id]++
	f.recent.changed[f.recent.changes%recentChanges] = change{id, f.versions[id], gone}
	f.recent.changes++
}

// find returns the answer to a question, or replaces the least recently used answer of its set.
func (r *recent) find(q *Request, decision int64) (a *answer, found bool) {
	hash := q.hash()
	set, at := &r.sets[hash%recentSets], 0
	for i, used := range set.used {
		if used > 0 && set.hashes[i] == hash && set.answers[i].asked.same(q) {
			set.used[i] = decision
			return &set.answers[i], true
		}
		if used < set.used[at] {
			at = i
		}
	}
	a = &set.answers[at]
	set.hashes[at], set.used[at] = hash, decision
	a.asked.copy(q)
	return a, false
}

// copy makes a request the same as another, with resources of its own.
func (r *Request) copy(q *Request) {
	r.Resources = append(r.Resources[:0], q.Resources...)
	resources := r.Resources
	*r = *q
	r.Resources = resources
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
		r.Topology == q.Topology && r.Spread == q.Spread && slices.Equal(r.Resources, q.Resources)
}

// answer returns the state of the search for the present question, with all changes since.
func (f *Fleet) answer() *answer {
	a, found := f.recent.find(f.question.Request, f.decision)
	if !found || f.recent.changes-a.upTo > recentChanges {
		a.forget()
		return a
	}
	for ; a.upTo < f.recent.changes; a.upTo++ {
		f.update(a, f.recent.changed[a.upTo%recentChanges])
	}
	a.rest.thin(f.versions)
	return a
}

// forget leaves everything out.
func (a *answer) forget() {
	a.rest.heap, a.rest.limit = a.rest.heap[:0], candidate{}
	a.roomless = 0
}

// begin begins a search with the blocks of all nodes of each size, in the room that all searches share.
func (f *Fleet) begin(a *answer) {
	shelf := f.shelfFor(f.question.Class)
	a.upTo, a.began = f.recent.changes, shelf.gives
	f.recent.own, a.rest = a.rest.heap, candidates{f.recent.room[:0], behind}
	for _, tree := range shelf.trees {
		if tree != nil && f.question.admits(&tree.rows[0]) {
			if bound := f.bound(&tree.rows[0]); bound != never {
				a.rest.push(&candidate{bound: bound, lowest: tree.lowest[0], block: tree.blocks[0]})
			}
		}
	}
}

// keep caches a search for the same question later.
func (f *Fleet) keep(a *answer) {
	a.rest.thin(f.versions)
	f.recent.room, a.rest.heap = a.rest.heap, append(f.recent.own[:0], a.rest.heap...)
}

// update adds a changed node, unless a later change will add it.
func (f *Fleet) update(a *answer, c change) {
	if c.gone || c.version != f.versions[c.id] || !f.question.admits(&f.rows[c.id]) {
		return
	}
	if bound := f.bound(&f.rows[c.id]); bound != never {
		a.rest.push(&candidate{bound: bound, lowest: c.id, version: c.version})
	}
}
