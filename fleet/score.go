package fleet

import "github.com/candor-project/candor/hybrid"

// A score is the quality of a node for a container: less is better. Ties go to the node with the lowest number.
type score uint64

// never is the score of a node where a container cannot be.
const never score = 1<<64 - 1

// scoreOf returns a node's score in the fleet's order from the quote for the container.
func (f *Fleet) scoreOf(id NodeID, q *hybrid.Quote) score {
	switch {
	case !q.Direct:
		return f.indirectScoreOf(id)
	case f.query.byFreeShare:
		return f.shareScore(id)
	case f.options.Order == Paper:
		return paperScore(q.Whole, q.Shared)
	default:
		return candorScore(&q.Cost, f.kindForQuery(id).alignment.valueFor(f.sharesOf(id)))
	}
}

// weightedShare returns the free resources of a node as a weighted sum; less is better.
func (f *Fleet) weightedShare(id NodeID) int64 {
	k := f.kinds[f.nodes[id].kind]
	sum := k.weigher.weigh(int64(f.summaries[id].Free(hybrid.Flexible)), f.freeOf(id))
	if f.options.Order == Most {
		return sum
	}
	return k.weigher.whole - sum
}

// shareForOrder is the same in 2^-shareBits of all that nodes have.
func (f *Fleet) shareForOrder(id NodeID) uint64 {
	return f.kinds[f.nodes[id].kind].weigher.share(f.weightedShare(id))
}

// scoreBits of a share do not count in a score, so that a bound that is rounded is often the score.
const scoreBits = 8

// shareScore is the score of a node by the share that is free after the placement: the
// largest first, or by the order Most the smallest.
func (f *Fleet) shareScore(id NodeID) score {
	k, share := f.kindForQuery(id), f.weightedShare(id)
	if f.options.Order == Most {
		return score(k.weigher.share(max(0, share-k.reduction)) >> scoreBits)
	}
	return score(k.weigher.share(share+k.reduction) >> scoreBits)
}

// kindForQuery returns the kind of a node, with its values for the question.
func (f *Fleet) kindForQuery(id NodeID) *kind {
	k := f.kinds[f.rows[id].kind]
	if k.queryVersion != f.queryVersion {
		k.queryVersion = f.queryVersion
		k.alignment.set(&f.query, k.scale, k.scale)
		k.reduction = k.weigher.weigh(int64(f.query.need), f.query.Resources)
	}
	return k
}

// minIndirectScore is the least score of a node that has no direct room.
const minIndirectScore score = 1 << 63

// indirectScoreOf returns the score of a node on which fractions would have to move, or on which the view would be too wide: in every order such
// nodes come last. Of these the first can make room for the largest container, or has the most free CPU time.
func (f *Fleet) indirectScoreOf(id NodeID) score {
	s, q := &f.summaries[id], &f.query
	if q.byMaxStrictLimit {
		return indirectScore(s.MaxSensitive())
	}
	return indirectScore(s.Free(q.Class))
}

// indirectScore is the score by the most that such a node might have room for.
func indirectScore(limit hybrid.Milli) score { return minIndirectScore | score(hybrid.MaxLimit-limit) }

// paperScore is the order Paper for sensitive containers.
func paperScore(whole, shared hybrid.Milli) score {
	return timeScore(hybrid.MaxLimit-whole)<<22 | timeScore(hybrid.MaxLimit+shared)
}

// candorScore is the order Candor: the least added shared time; then the fewest NUMA nodes,
// L3 domains and split cores; then the strongest pull (alignment.go).
func candorScore(cost *hybrid.Cost, alignment int64) score {
	topology := countScore(cost.NUMAs, 4)<<10 | countScore(cost.L3s, 5)<<5 | countScore(cost.Splits, 5)
	return costScore(cost.Shared, topology) | alignmentScore(alignment)
}

// inOneDomain is the topology part of the score within a NUMA node and L3 domain.
const inOneDomain score = 1<<10 | 1<<5

// costScore is candorScore with the strongest possible pull, so that it is a bound from the cost alone.
func costScore(shared hybrid.Milli, topology score) score {
	return timeScore(hybrid.MaxLimit+shared)<<(14+alignmentBits) | topology<<alignmentBits
}

func alignmentScore(alignment int64) score { return score(maxAlignment - alignment) }

// timeScore is CPU time as a part of a score: below 1<<21.
func timeScore(time hybrid.Milli) score { return score(time) }

// countScore encodes a number of domains or cores in the bits of a score; higher counts are clamped.
func countScore(n, bits int) score { return score(min(n, 1<<bits-1)) }
