package fleet

import "github.com/candor-project/candor/hybrid"

// A score is the quality of a node for the query's container: less is better. Of nodes with equal scores, the node with the lowest NodeID
// is the best.
type score uint64

// A node that cannot take the container has the score "never", which is worse than every other score.
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
		return candorScore(&q.Cost, f.kindForQuery(id).aligner.valueFor(f.sharesOf(id)))
	}
}

// weightedShare returns the weighted sum (weigher) by which the order compares nodes: of the free resources in the order Most,
// otherwise of the used resources. A lower sum is better.
func (f *Fleet) weightedShare(id NodeID) int64 {
	k := f.kinds[f.nodes[id].kind]
	sum := k.weigher.weigh(int64(f.summaries[id].Free(hybrid.Flexible)), f.freeOf(id))
	if f.options.Order == Most {
		return sum
	}
	return k.weigher.whole - sum
}

// shareForOrder returns weightedShare as a share of the node's capacity, in units of 2^-shareBits.
func (f *Fleet) shareForOrder(id NodeID) uint64 {
	return f.kinds[f.nodes[id].kind].weigher.share(f.weightedShare(id))
}

// omittedShareBits is the number of low bits of a share that a score omits. Scores are coarse, so that the bound of a group of nodes, which
// is rounded, often equals the best score in the group.
const omittedShareBits = 8

// shareScore returns the score of a node for the orders that compare the free share after the placement. Most prefers the smallest free
// share, the other orders prefer the largest. In all of them, a lower score is better.
func (f *Fleet) shareScore(id NodeID) score {
	k, share := f.kindForQuery(id), f.weightedShare(id)
	if f.options.Order == Most {
		return score(k.weigher.share(max(0, share-k.reduction)) >> omittedShareBits)
	}
	return score(k.weigher.share(share+k.reduction) >> omittedShareBits)
}

// kindForQuery returns the kind of a node. It first updates the fields of the kind that depend on the query.
func (f *Fleet) kindForQuery(id NodeID) *kind {
	k := f.kinds[f.rows[id].kind]
	if k.queryVersion != f.queryVersion {
		k.queryVersion = f.queryVersion
		k.aligner.set(&f.query, k.scale, k.scale)
		k.reduction = k.weigher.weigh(int64(f.query.guaranteed), f.query.Resources)
	}
	return k
}

// minIndirectScore is the lowest score of a node that can take the container only with moves, or with a wider view than needed.
const minIndirectScore score = 1 << 63

// indirectScoreOf returns the score of a node on which fractions would have to move, or on which the view would be wider than
// needed. In every order such nodes come last. The best of these nodes has the highest Summary.MaxSensitive, an upper bound on
// the limit of a strict sensitive container that fits. If this bound does not apply to the request (query.byMaxStrictLimit), the
// best node has the most free CPU time for the request's class.
func (f *Fleet) indirectScoreOf(id NodeID) score {
	s, q := &f.summaries[id], &f.query
	if q.byMaxStrictLimit {
		return indirectScore(s.MaxSensitive())
	}
	return indirectScore(s.Free(q.Class))
}

// indirectScore returns the score of a node that may make room for containers up to the given limit, and not for larger containers.
func indirectScore(limit hybrid.Milli) score { return minIndirectScore | score(hybrid.MaxLimit-limit) }

// paperScore is the score of a sensitive container in the order Paper: the most time on whole CPUs, then the least shared time.
func paperScore(whole, shared hybrid.Milli) score {
	return timeScore(hybrid.MaxLimit-whole)<<22 | timeScore(hybrid.MaxLimit+shared)
}

// candorScore is the score in the order Candor: the least added shared time; then the fewest NUMA nodes, L3 domains and split cores; then
// the highest alignment.
func candorScore(cost *hybrid.Cost, alignment int64) score {
	topology := countScore(cost.NUMAs, 4)<<10 | countScore(cost.L3s, 5)<<5 | countScore(cost.Splits, 5)
	return costScore(cost.Shared, topology) | alignmentScore(alignment)
}

// inOneDomain is the topology part of a score if all CPUs are in a single NUMA node and a single L3 domain.
const inOneDomain score = 1<<10 | 1<<5

// costScore computes candorScore without the alignment. The bits of the alignment are 0, the lowest value, so the result is a lower bound
// on candorScore.
func costScore(shared hybrid.Milli, topology score) score {
	return timeScore(hybrid.MaxLimit+shared)<<(14+alignmentBits) | topology<<alignmentBits
}

// alignmentScore converts an alignment to the lowest bits of candorScore.
func alignmentScore(alignment int64) score { return score(maxAlignment - alignment) }

// timeScore converts a CPU time, below 1<<21 milli-CPU, to a part of a score.
func timeScore(time hybrid.Milli) score { return score(time) }

// countScore clamps a number of domains or cores to the given number of bits of a score.
func countScore(n, bits int) score { return score(min(n, 1<<bits-1)) }
