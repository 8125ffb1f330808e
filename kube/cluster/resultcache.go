package cluster

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"github.com/candor-project/candor/fleet"
)

// Pods arrive in groups with equal requests, and a further pod on a node does not change thousands of other nodes: most results of a top-k
// search are results of earlier searches.

// ResultCaches are the result caches of the last requests. The zero value is empty. It is for one goroutine.
type ResultCaches struct {
	crowds map[crowd]*ResultCache
	count  uint64 // of calls
}

// A crowd identifies pods with equal requests.
type crowd [sha256.Size]byte

func (p *Pod) crowd() crowd {
	text := fmt.Appendf(nil, "%d", p.memory)
	for i := range p.containers {
		c := p.containers[i]
		c.Request.ID = ""
		text = fmt.Appendf(text, " %v %v", c.RunsToCompletion, c.Request)
	}
	return sha256.Sum256(text)
}

// mostCrowds bounds the memory: 16 bytes each, for each node.
const mostCrowds = 64

// For returns the result cache for pods with the requests of a pod, for a number of nodes.
func (c *ResultCaches) For(p *Pod, nodes int) *ResultCache {
	c.count++
	crowd := p.crowd()
	a := c.crowds[crowd]
	if a == nil {
		a = c.unused()
		c.crowds[crowd] = a
	}
	if a.last = c.count; len(a.all) != nodes {
		a.all = make([]remembered, nodes)
	}
	return a
}

// unused returns no answers, in place of those that were not asked for the longest.
func (c *ResultCaches) unused() *ResultCache {
	if c.crowds == nil {
		c.crowds = map[crowd]*ResultCache{}
	}
	if len(c.crowds) < mostCrowds {
		return new(ResultCache)
	}
	var oldest crowd
	last := uint64(math.MaxUint64)
	for crowd, a := range c.crowds {
		if a.last < last {
			oldest, last = crowd, a.last
		}
	}
	a := c.crowds[oldest]
	delete(c.crowds, oldest)
	clear(a.all)
	return a
}

// ResultCache holds the results for pods with equal requests, by the numbers of the nodes.
type ResultCache struct {
	all  []remembered
	last uint64 // call
}

// A remembered result is valid for a single copy of a node.
type remembered struct {
	rank    fleet.Rank
	version uint64 // of the copy, twice, and 1 if the rank is known
}

// bound returns the bound of a node, whose copy it updates.
func (a *ResultCache) bound(number int, s *NodeRef, p *Pod) (fleet.Rank, bool) {
	if s.copied != s.changes.Load() {
		s.read()
	}
	if r := &a.all[number]; r.version>>1 == s.version {
		return r.rank, r.version&1 == 1
	}
	rank, isKnown, ok := s.bound(p)
	if !ok {
		return a.rank(number, s, p), true
	}
	a.remember(number, s, rank, isKnown)
	return rank, isKnown
}

// rank is that of the node as it was when its seat was copied, or is by now.
func (a *ResultCache) rank(number int, s *NodeRef, p *Pod) fleet.Rank {
	rank := s.node.rank(p, s.Amounts)
	if rank != WorstRank || !s.node.shows(p) {
		a.remember(number, s, rank, true)
	}
	return rank
}

// shows reports whether the node has a container of the pod itself: then its result for the pod does not apply to other pods.
func (n *node) shows(p *Pod) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now != nil && slices.ContainsFunc(p.containers, func(c Container) bool {
		_, is := n.now.Grant(c.Request.ID)
		return is
	})
}

func (a *ResultCache) remember(number int, s *NodeRef, rank fleet.Rank, isKnown bool) {
	r := remembered{rank, s.version << 1}
	if isKnown {
		r.version++
	}
	a.all[number] = r
}
