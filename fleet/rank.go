package fleet

import "github.com/candor-project/candor/hybrid"

// Query, Scale and Rank are for callers that store the nodes themselves, such as a Kubernetes scheduler plugin. They rank nodes as a fleet
// in the order Candor does.

// A Rank is the quality of a node for a Query: less is better. Ranks of nodes of different sizes are comparable.
type Rank uint64

// A Query is the request of a container, or of several containers for the same node.
type Query struct {
	q query
}

// NewQuery returns the Query of a container. The request's resources are in the order of the nodes' resources.
func NewQuery(r *Request) Query {
	h := hybrid.Request{Class: r.Class, Limit: r.Limit, Guarantee: r.Guarantee, Topology: r.Topology}
	query := Query{query{Request: r, guaranteed: int32(h.Guaranteed())}}
	if r.Class == hybrid.Sensitive {
		query.q.fraction = int32(r.Limit % 1000)
		query.q.byMaxStrictLimit = h.IsPlain() && r.Policy == hybrid.Strict
	}
	return query
}

// Add adds the CPU time of another container of the same pod. The further resources of the Query must already be the sum over all
// containers of the pod.
func (query *Query) Add(r *Request) {
	b := NewQuery(r)
	all := *query.q.Request
	all.Class = hybrid.Flexible // because Figures.MaxStrictLimit applies to a single container
	query.q.Request, query.q.byMaxStrictLimit = &all, false
	query.q.guaranteed += b.q.guaranteed
	query.q.fraction += b.q.fraction
}

// A Scale converts amounts of resources to shares of a node's capacity. Nodes with equal capacities can use the same Scale.
type Scale struct {
	scale []float64
}

// NewScale returns the scale of nodes with this CPU time and this capacity of each further resource (at most 15 resources, each at most
// MaxAmount).
func NewScale(cpu hybrid.Milli, capacity []int64) Scale {
	w := newWeigher(int64(cpu), capacity)
	return Scale{newScale(&w)}
}

// Rank returns a node's rank in the order Candor. quote is the node's quote for the query or, for several containers, the sum of their
// quotes. g and free are the node's figures and its free further resources before the placement.
func (s *Scale) Rank(query *Query, quote *hybrid.Quote, g *hybrid.Figures, free []int64) Rank {
	if !quote.Direct {
		limit := g.Free[query.q.Class]
		if query.q.byMaxStrictLimit {
			limit = g.MaxStrictLimit
		}
		return Rank(indirectScore(hybrid.Milli(limit)))
	}
	var p aligner
	p.setWeights(&query.q, s.scale, s.scale)
	var shares [1 + maxResources]int32
	shares[0] = int32(toShare(int64(g.Free[hybrid.Flexible]), s.scale[0]))
	for i, amount := range free {
		shares[1+i] = int32(toShare(amount, s.scale[1+i]))
	}
	return Rank(candorScore(&quote.Cost, p.valueFor(shares[:1+len(free)])))
}

// PlaceOn places a container on the given node. Errors: those of Place; ErrNoCapacity also means that the node does not exist. On an error
// PlaceOn changes nothing.
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
