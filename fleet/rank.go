package fleet

import "github.com/candor-project/candor/hybrid"

// The functions below are for callers with their own nodes, such as a scheduler of Kubernetes, that need the order of a fleet.

// A Rank is the quality of a node for a query: less is better. Ranks of nodes of different sizes are comparable.
type Rank uint64

// Query is the request of a container, or of several containers for the same node.
type Query struct {
	q query
}

// NewQuery returns the query of a container. The resources of the request are in the order of the nodes' resources.
func NewQuery(r *Request) Query {
	h := hybrid.Request{Class: r.Class, Limit: r.Limit, Guarantee: r.Guarantee, Topology: r.Topology}
	query := Query{query{Request: r, guaranteed: int32(h.Guaranteed())}}
	if r.Class == hybrid.Sensitive {
		query.q.fraction = int32(r.Limit % 1000)
		query.q.byMaxStrictLimit = h.IsPlain() && r.Policy == hybrid.Strict
	}
	return query
}

// Add adds the CPU time of another container of the same pod. The query includes its further resources already.
func (query *Query) Add(r *Request) {
	b := NewQuery(r)
	all := *query.q.Request
	all.Class = hybrid.Flexible // no single limit shows whether all containers fit
	query.q.Request, query.q.byMaxStrictLimit = &all, false
	query.q.guaranteed += b.q.guaranteed
	query.q.fraction += b.q.fraction
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

// Rank returns a node's rank by the order Candor. The quote is the node's quote for the query; for several containers it is the sum of
// their quotes. g and free are the node's free time and resources before the placement.
func (s *Scale) Rank(query *Query, quote *hybrid.Quote, g *hybrid.Figures, free []int64) Rank {
	if !quote.Direct {
		limit := g.Free[query.q.Class]
		if query.q.byMaxStrictLimit {
			limit = g.MaxStrictLimit
		}
		return Rank(indirectScore(hybrid.Milli(limit)))
	}
	var p alignment
	p.setWeights(&query.q, s.scale, s.scale)
	var shares [1 + maxResources]int32
	shares[0] = int32(toShare(int64(g.Free[hybrid.Flexible]), s.scale[0]))
	for i, amount := range free {
		shares[1+i] = int32(toShare(amount, s.scale[1+i]))
	}
	return Rank(candorScore(&quote.Cost, p.valueFor(shares[:1+len(free)])))
}

// PlaceOn puts a container on a node of the caller's choice. Errors: those of Place; on an error nothing has changed.
func (f *Fleet) PlaceOn(c ContainerID, id NodeID, r *Request) (Placement, error) {
	f.setQuery(r)
	switch err := f.checkRequest(r); {
	case err != nil:
		return Placement{Node: NoNode}, err
	case c < 0 || c >= MaxContainers || f.NodeOf(c) != NoNode:
		return Placement{Node: NoNode}, hybrid.ErrIDTaken
	case !f.hasNode(id) || !f.hasRoom(id, r):
		return Placement{Node: NoNode}, hybrid.ErrNoCapacity
	}
	cost, err := f.placeOn(c, id, r)
	if err != nil {
		id = NoNode
	}
	return Placement{id, cost}, err
}
