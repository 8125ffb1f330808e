package fleet

import "slices"

// Equal requests arrive in groups: in Google's cell of 2011, four of five containers repeated the previous request. So the fleet caches the
// search state of recent queries: the candidates that remain when a search ends. For an equal query, the fleet adds the nodes that have
// changed since and resumes the search.

const (
	cacheSets  = 32  // number of sets of the cache
	cacheWays  = 4   // number of search states in a set
	maxChanges = 256 // number of node changes that are stored; a search state that misses more changes is reset
)

// A searchState is the state of the search for a query.
type searchState struct {
	request     Request    // a copy of the query's request
	candidates  candidates // remaining candidates; the old candidate of a changed node remains, too, as a stale candidate
	seenChanges int64      // value of searchCache.changes up to which the candidates include the changed nodes
	startMoves  int64      // nodeIndex.moveCount when the search started

	roomyNode     NodeID // the node that had room for the container in the last call of hasAnyRoom; it may have changed since
	noRoomChanges int64  // value of searchCache.changes at which no node had room for the container; initially 0, when the fleet had no nodes
}

// A searchSet is a set of a set-associative cache. The hash of a query determines its set.
type searchSet struct {
	hashes   [cacheWays]uint64
	lastUsed [cacheWays]int64 // number of the decision (Fleet.decisions) that used the state last; 0 if the state is unused
	states   [cacheWays]searchState
}

// A searchCache holds recent search states and the latest changes of nodes.
type searchCache struct {
	sets    [cacheSets]searchSet
	changed [maxChanges]nodeChange // ring buffer of the latest changes
	changes int64                  // number of changes since New

	// The first search of a query can need many more candidates than the state stores. So it uses a buffer that all searches share:
	sharedHeap heap // the buffer
	ownHeap    heap // between startSearch and storeSearch: the memory of the state's own candidates
}

// A nodeChange is a change of a node.
type nodeChange struct {
	id        NodeID
	version   uint32 // value of Fleet.versions after the change
	isRemoved bool
}

// recordChange records that a node was added, changed or removed.
func (f *Fleet) recordChange(id NodeID, isRemoved bool) {
	f.versions[id]++
	f.searches.changed[f.searches.changes%maxChanges] = nodeChange{id, f.versions[id], isRemoved}
	f.searches.changes++
}

// find returns the search state of a request. The hash of the request selects a set of states. If no state of the set belongs to the
// request, find assigns the least recently used state to it.
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

// copyFrom copies a request, including the elements of Resources.
func (r *Request) copyFrom(q *Request) {
	r.Resources = append(r.Resources[:0], q.Resources...)
	resources := r.Resources
	*r = *q
	r.Resources = resources
}

// hash returns a hash of a request.
func (r *Request) hash() uint64 {
	const golden = 0x9e3779b97f4a7c15 // the multiplication distributes the low bits over the high bits
	h := (uint64(r.Limit)<<1|uint64(r.Class))*golden ^ uint64(r.Guarantee)
	h = h*golden ^ r.Spread
	for _, amount := range r.Resources {
		h = h*golden ^ uint64(amount)
	}
	return h * golden >> 32
}

// equals reports whether two requests are equal.
func (r *Request) equals(q *Request) bool {
	return r.Limit == q.Limit && r.Guarantee == q.Guarantee && r.Class == q.Class && r.Policy == q.Policy &&
		r.Topology == q.Topology && r.Spread == q.Spread && slices.Equal(r.Resources, q.Resources)
}

// resumeSearch returns the cached search state of the current query, with all nodes that have changed since, or an empty state.
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

// reset removes all candidates. The zero limit makes the next call of search return false.
func (s *searchState) reset() {
	s.candidates.heap, s.candidates.limit = s.candidates.heap[:0], candidate{}
	s.noRoomChanges = 0
}

// startSearch starts a search: it adds the root of each tree as a candidate, in the shared buffer.
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

// storeSearch trims the candidates and copies them from the shared buffer to the search state.
func (f *Fleet) storeSearch(s *searchState) {
	s.candidates.trim(f.versions)
	f.searches.sharedHeap, s.candidates.heap = s.candidates.heap, append(f.searches.ownHeap[:0], s.candidates.heap...)
}

// update adds a changed node to the candidates, unless the node has changed again: the later change then adds the node.
func (f *Fleet) update(s *searchState, c nodeChange) {
	if c.isRemoved || c.version != f.versions[c.id] || !f.query.admits(&f.rows[c.id]) {
		return
	}
	if bound := f.bound(&f.rows[c.id]); bound != never {
		s.candidates.push(&candidate{bound: bound, lowest: c.id, version: c.version})
	}
}
