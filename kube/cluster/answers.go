package cluster

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"github.com/candor-project/candor/fleet"
)

// Pods come in crowds that ask for the same, and one more on a node changes nothing on thousands of others: most of what a race finds
// out was found out before.

// ResultCaches are the answers for the last pods, by what these asked for. The zero value is none. It is for one goroutine.
type ResultCaches struct {
	crowds map[crowd]*ResultCache
	count  uint64 // of calls
}

// A crowd is all that its pods ask for, and not who asks.
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

// For returns the answers for pods that ask for what a pod asks for, of so many nodes.
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

// ResultCache are what was found out for pods that ask for the same, by the numbers of the seats.
type ResultCache struct {
	all  []remembered
	last uint64 // call
}

// A remembered answer holds for one copy of a node.
type remembered struct {
	rank    fleet.Rank
	version uint64 // of the copy, twice, and 1 if the rank is known
}

// bound is that of a seat, whose copy it brings up to date.
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

// shows reports whether the node has a container of the pod itself: then what it says of the pod is for no other.
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
