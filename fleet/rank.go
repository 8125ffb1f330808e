package fleet

import "github.com/candor-project/candor/hybrid"

// This file is for whoever keeps the nodes itself, as a scheduler of Kubernetes does, and wants
// the order of a fleet all the same.

// A Rank is how good a node is for what is asked: less is better. Ranks of nodes of
// different sizes compare.
type Rank uint64

// Query is what a container asks of a node, or several that go there together.
type Query struct {
	q question
}

// NewQuery returns what a container asks for. The resources of the request are in the order of
// those of the nodes.
func NewQuery(r *Request) Query {
	h := hybrid.Request{Class: r.Class, Limit: r.Limit, Guarantee: r.Guarantee, Topology: r.Topology}
	a := Query{question{Request: r, need: int32(h.Guaranteed())}}
	if r.Class == hybrid.Sensitive {
		a.q.fraction = int32(r.Limit % 1000)
		a.q.byMost = h.IsPlain() && r.Policy == hybrid.Strict
	}
	return a
}

// Add asks for the CPU time of one more container of the same pod. Its resources
// are those that were asked for already.
func (a *Query) Add(r *Request) {
	b := NewQuery(r)
	all := *a.q.Request
	all.Class = hybrid.Flexible // no limit of one container tells whether there is room for all
	a.q.Request, a.q.byMost = &all, false
	a.q.need += b.q.need
	a.q.fraction += b.q.fraction
}

// A Scale makes shares of amounts: nodes with the same capacities have the same.
type Scale struct {
	scale []float64
}

// NewScale returns the scale of nodes with so much CPU time and so much of each further resource
// (at most 15 of them, each at most MaxAmount).
func NewScale(cpu hybrid.Milli, capacity []int64) Scale {
	w := newWeigher(int64(cpu), capacity)
	return Scale{newScale(&w)}
}

// Rank returns a node's rank by the order Candor. The quote is the node's for what is asked; of several
// containers it is the sum of theirs. Time and free are what the node has free before it.
func (s *Scale) Rank(a *Query, quote *hybrid.Quote, g *hybrid.Figures, free []int64) Rank {
	if !quote.Direct {
		most := g.Free[a.q.Class]
		if a.q.byMost {
			most = g.MaxStrictLimit
		}
		return Rank(indirectScore(hybrid.Milli(most)))
	}
	var p pull
	p.weigh(&a.q, s.scale, s.scale)
	var shares [1 + maxResources]int32
	shares[0] = int32(partOf(int64(g.Free[hybrid.Flexible]), s.scale[0]))
	for i, amount := range free {
		shares[1+i] = int32(partOf(amount, s.scale[1+i]))
	}
	return Rank(candorScore(&quote.Cost, p.of(shares[:1+len(free)])))
}

// PlaceOn puts a container on a node that somebody else has chosen. The error is as that of
// Place; nothing has changed then.
func (f *Fleet) PlaceOn(c ContainerID, id NodeID, r *Request) (Placement, error) {
	f.ask(r)
	switch err := f.check(r); {
	case err != nil:
		return Placement{Node: NoNode}, err
	case c < 0 || c >= MaxContainers || f.NodeOf(c) != NoNode:
		return Placement{Node: NoNode}, hybrid.ErrIDTaken
	case !f.has(id) || !f.hasRoom(id, r):
		return Placement{Node: NoNode}, hybrid.ErrNoCapacity
	}
	cost, err := f.put(c, id, r)
	if err != nil {
		id = NoNode
	}
	return Placement{id, cost}, err
}
