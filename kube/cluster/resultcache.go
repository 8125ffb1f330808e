package cluster

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"github.com/candor-project/candor/fleet"
)

// Most pods have the same requests as earlier pods, and a new pod on a node does not change thousands of other nodes. So a top-k search
// finds most ranks in the results of earlier searches.

// ResultCaches holds a ResultCache for each set of equal requests, up to maxCaches of them. The zero value is empty. It is not
// safe for concurrent use.
type ResultCaches struct {
	caches map[requestKey]*ResultCache
	count  uint64 // number of calls of For
}

// A requestKey is a hash that is equal for pods with equal requests.
type requestKey [sha256.Size]byte

func (p *Pod) requestKey() requestKey {
	text := fmt.Appendf(nil, "%d", p.memory)
	for i := range p.containers {
		c := p.containers[i]
		c.Request.ID = ""
		text = fmt.Appendf(text, " %v %v", c.RunsToCompletion, c.Request)
	}
	return sha256.Sum256(text)
}

// maxCaches bounds the number of result caches, each of which has 16 bytes for each node.
const maxCaches = 64

// For returns the result cache for pods with the same requests as p. nodes is the number of nodes in the search.
func (c *ResultCaches) For(p *Pod, nodes int) *ResultCache {
	c.count++
	key := p.requestKey()
	a := c.caches[key]
	if a == nil {
		a = c.newCache()
		c.caches[key] = a
	}
	if a.lastUse = c.count; len(a.ranks) != nodes {
		a.ranks = make([]cachedRank, nodes)
	}
	return a
}

// newCache returns an empty result cache. If there are maxCaches result caches, it empties and reuses the least recently used cache.
func (c *ResultCaches) newCache() *ResultCache {
	if c.caches == nil {
		c.caches = map[requestKey]*ResultCache{}
	}
	if len(c.caches) < maxCaches {
		return new(ResultCache)
	}
	var oldest requestKey
	last := uint64(math.MaxUint64)
	for key, a := range c.caches {
		if a.lastUse < last {
			oldest, last = key, a.lastUse
		}
	}
	a := c.caches[oldest]
	delete(c.caches, oldest)
	clear(a.ranks)
	return a
}

// ResultCache caches the ranks of nodes for pods with equal requests.
type ResultCache struct {
	ranks   []cachedRank
	lastUse uint64 // value of ResultCaches.count at the last use
}

// A cachedRank is a node's rank, or a lower bound on the rank. It is valid for a single version of a NodeRef.
type cachedRank struct {
	rank    fleet.Rank
	version uint64 // twice the version of the NodeRef, plus 1 if the rank is exact
}

// bound returns the rank of a node, or a lower bound on the rank. The second result reports whether the rank is exact. If the
// node has changed, bound first updates the NodeRef.
func (a *ResultCache) bound(number int, s *NodeRef, p *Pod) (fleet.Rank, bool) {
	if s.copied != s.changes.Load() {
		s.read()
	}
	if r := &a.ranks[number]; r.version>>1 == s.version {
		return r.rank, r.version&1 == 1
	}
	rank, isKnown, ok := s.bound(p)
	if !ok {
		return a.rank(number, s, p), true
	}
	a.store(number, s, rank, isKnown)
	return rank, isKnown
}

// rank evaluates the node, and returns and caches its rank. The node can have changed after the NodeRef was updated; the next search then
// discards the rank.
func (a *ResultCache) rank(number int, s *NodeRef, p *Pod) fleet.Rank {
	rank := s.node.rank(p, s.Amounts)
	if rank != WorstRank || !s.node.shows(p) {
		a.store(number, s, rank, true)
	}
	return rank
}

// shows reports whether the node already has a container of the pod. Such a node refuses the pod, but this refusal does not apply
// to other pods with the same requests.
func (n *node) shows(p *Pod) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current != nil && slices.ContainsFunc(p.containers, func(c Container) bool {
		_, is := n.current.Grant(c.Request.ID)
		return is
	})
}

func (a *ResultCache) store(number int, s *NodeRef, rank fleet.Rank, isKnown bool) {
	r := cachedRank{rank, s.version << 1}
	if isKnown {
		r.version++
	}
	a.ranks[number] = r
}
