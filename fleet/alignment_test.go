package fleet

import (
	"testing"

	"pgregory.net/rapid"
)

// rowOfShares returns the row of a node with these free shares and no other features.
func rowOfShares(shares []int32) row {
	var list featureList
	list.setShares(shares, Candor)
	node := worstRow
	node.features = list.pack()
	return node
}

// With two resources, the upper bound of a row is never below the alignment of a node in the row. For a single node, they are equal.
func TestAlignmentOfTwoResources(t *testing.T) {
	share := rapid.OneOf(rapid.Int32Range(0, maxFeature), rapid.SampledFrom([]int32{0, 1, maxFeature - 1, maxFeature}))
	weight := rapid.Int64Range(0, 2*wholeShare)
	rapid.Check(t, func(t *rapid.T) {
		p := aligner{reduction: rapid.Int64Range(-1<<31, 1<<31).Draw(t, "shift")}
		p.weights[0] = weight.Draw(t, "weight of CPU")
		p.weights[1] = rapid.OneOf(weight, rapid.Int64Range(-2*wholeShare, 0)).Draw(t, "of the other")
		p.setBound(2)
		of, most := worstRow, int64(1-maxAlignment)
		nodes := rapid.IntRange(1, 4).Draw(t, "nodes")
		for range nodes {
			shares := []int32{share.Draw(t, "CPU"), share.Draw(t, "other")}
			node := rowOfShares(shares)
			if got, want := p.upperBound(&node), p.valueFor(shares); got != want {
				t.Fatalf("%+v: a node with %v free pulls with %d at most, want %d", p, shares, got, want)
			}
			of.include(&node)
			most = max(most, p.valueFor(shares))
		}
		if bound := p.upperBound(&of); bound < most {
			t.Errorf("%+v: %d at most, but a node pulls with %d", p, bound, most)
		}
	})
}

// The neighbors terms lower the bound if some nodes have much free CPU and other nodes have much of the other resource free, because no
// node has the highest free share of both.
func TestAlignmentNeighbors(t *testing.T) {
	for _, weights := range [][2]int64{{5, 1}, {3, 2}, {2, 3}, {1, 5}} {
		p := aligner{weights: [1 + maxResources]int64{weights[0] << 8, weights[1] << 8}}
		p.setBound(2)
		of, most := worstRow, int64(0)
		for _, shares := range [][]int32{{60000, 10000}, {50000, 40000}, {40000, 50000}, {10000, 60000}} {
			node := rowOfShares(shares)
			of.include(&node)
			most = max(most, p.valueFor(shares))
		}
		corner := weights[0]*60000 + weights[1]*60000
		if bound := p.upperBound(&of); bound < most || (bound-most)*3 > corner-most {
			t.Errorf("weights %v: %d at most, where the strongest pulls with %d and the corner has %d", weights, bound, most, corner)
		}
	}
}
