package fleet

import "slices"

// Equal requests arrive in groups: of the containers of Google's cell in 2011, four in five repeated the previous request. So the fleet
// caches the state of the searches for recent questions: the unopened blocks and the nodes that were not chosen. It adds the nodes that
// have changed since, and resumes the search.

const (
	cacheSets  = 32  // of answers
	cacheWays  = 4   // of each
	maxChanges = 256 // of nodes; an older answer restarts
)

// An searchState is the state of the search for a question.
type searchState struct {
	request     Request    // with resources of its own
	candidates  candidates // contains every node that can take the container, and the best node; changed nodes are in it twice
	seenChanges int64      // changes of nodes until then are in it
	startMoves  int64      // shelf.gives at the time

	roomyNode     NodeID // a guess at a node with room for it, to be checked
	noRoomChanges int64  // number of changes after which no node had room; after 0 changes there was no node
}

// An cacheSet is a set of a set-associative cache: a question belongs to one set.
type cacheSet struct {
	hashes   [cacheWays]uint64
	lastUsed [cacheWays]int64 // the decisions that used them last
	states   [cacheWays]searchState
}

// searchCache are the answers, and the changes since.
type searchCache struct {
	sets    [cacheSets]cacheSet
	changed [maxChanges]change // the latest, in a ring
	changes int64

	// Between begin and keep:
	sharedHeap heap // where the candidates are
	ownHeap    heap // where they will be
}

// A change is the change of a node.
type change struct {
	id        NodeID
	version   uint32 // after it
	isRemoved bool
}

// recordChange notes that a node has changed, was added or removed.
func (f *Fleet) recordChange(id NodeID, isRemoved bool) {
	f.versions[id]++
	f.searches.changed[f.searches.changes%maxChanges] = change{id, f.versions[id], isRemoved}
	f.searches.changes++
}

// find returns the answer to a question, or replaces the least recently used answer of its set.
func (r *searchCache) find(q *Request, decision int64) (s *searchState, found bool) {
	hash := q.hash()
	ways, oldest := &r.sets[hash%cacheSets], 0
	for i, used := range ways.lastUsed {
		if used > 0 && ways.hashes[i] == hash && ways.states[i].request.equals(q) {
			ways.lastUsed[i] = decision
			return &ways.states[i], true
		}
		if used < ways.lastUsed[oldest] {
			oldest = i
		}
	}
	s = &ways.states[oldest]
	ways.hashes[oldest], ways.lastUsed[oldest] = hash, decision
	s.request.copyFrom(q)
	return s, false
}

// copyFrom makes a request the same as another, with resources of its own.
func (r *Request) copyFrom(q *Request) {
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

// equals reports whether two requests ask the same.
func (r *Request) equals(q *Request) bool {
	return r.Limit == q.Limit && r.Guarantee == q.Guarantee && r.Class == q.Class && r.Policy == q.Policy &&
		r.Topology == q.Topology && r.Spread == q.Spread && slices.Equal(r.Resources, q.Resources)
}

// resumeSearch returns the state of the search for the present question, with all changes since.
func (f *Fleet) resumeSearch() *searchState {
	s, found := f.searches.find(f.query.Request, f.decisions)
	if !found || f.searches.changes-s.seenChanges > maxChanges {
		s.reset()
		return s
	}
	for ; s.seenChanges < f.searches.changes; s.seenChanges++ {
		f.update(s, f.searches.changed[s.seenChanges%maxChanges])
	}
	s.candidates.trim(f.versions)
	return s
}

// reset leaves everything out.
func (s *searchState) reset() {
	s.candidates.heap, s.candidates.limit = s.candidates.heap[:0], candidate{}
	s.noRoomChanges = 0
}

// startSearch begins a search with the blocks of all nodes of each size, in the room that all searches share.
func (f *Fleet) startSearch(s *searchState) {
	index := f.indexFor(f.query.Class)
	s.seenChanges, s.startMoves = f.searches.changes, index.moveCount
	f.searches.ownHeap, s.candidates = s.candidates.heap, candidates{f.searches.sharedHeap[:0], maxCandidate}
	for _, tree := range index.trees {
		if tree != nil && f.query.admits(&tree.rows[0]) {
			if bound := f.bound(&tree.rows[0]); bound != never {
				s.candidates.push(&candidate{bound: bound, lowest: tree.lowest[0], block: tree.blocks[0]})
			}
		}
	}
}

// storeSearch caches a search for the same question later.
func (f *Fleet) storeSearch(s *searchState) {
	s.candidates.trim(f.versions)
	f.searches.sharedHeap, s.candidates.heap = s.candidates.heap, append(f.searches.ownHeap[:0], s.candidates.heap...)
}

// update adds a changed node, unless a later change will add it.
func (f *Fleet) update(s *searchState, c change) {
	if c.isRemoved || c.version != f.versions[c.id] || !f.query.admits(&f.rows[c.id]) {
		return
	}
	if bound := f.bound(&f.rows[c.id]); bound != never {
		s.candidates.push(&candidate{bound: bound, lowest: c.id, version: c.version})
	}
}
