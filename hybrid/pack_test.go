package hybrid

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The bound never rejects a feasible instance: these items fill the bins by construction.
func TestPackBoundOnFeasible(t *testing.T) {
	size := rapid.OneOf(rapid.Int32Range(1, 1000), rapid.SampledFrom([]int32{100, 200, 250, 251, 300, 333, 334, 500, 501}))
	rapid.Check(t, func(t *rapid.T) {
		var p packer
		for range rapid.IntRange(1, 12).Draw(t, "bins") {
			room := size.Draw(t, "room")
			p.room = append(p.room, room)
			for left := room; left > 0 && rapid.IntRange(0, 9).Draw(t, "stop") > 0; {
				item := min(left, size.Draw(t, "item"))
				p.items = append(p.items, packItem{milli: item})
				left -= item
			}
		}
		if p.exceedsBound(0) {
			t.Errorf("the bound rejects a feasible instance: room %v, items %v", p.room, p.items)
		}
	})
}

// fits tries all packings of items. seen contains the states that it has tried before.
func fits(room, items []int32, seen map[string]bool) bool {
	if len(items) == 0 {
		return true
	}
	slices.Sort(room)
	at := fmt.Sprint(room, len(items))
	if seen[at] {
		return false
	}
	seen[at] = true
	for bin := range room {
		left := slices.Clone(room)
		if left[bin] -= items[0]; left[bin] >= 0 && fits(left, items[1:], seen) {
			return true
		}
	}
	return false
}

// The bound rejects sets of fractions, as on full nodes, for which a search finds no packing.
func TestPackBound(t *testing.T) {
	times := func(count int, milli int32) []int32 { return slices.Repeat([]int32{milli}, count) }
	for name, test := range map[string]struct {
		room  []int32
		items []int32
	}{
		"three to a CPU":        {times(5, 1000), times(16, 300)},
		"and a half":            {times(5, 1000), slices.Concat([]int32{500}, times(14, 300), []int32{51})},
		"one of them smaller":   {times(3, 1000), slices.Concat(times(9, 300), []int32{260})},
		"six to a CPU":          {times(4, 1000), times(25, 150)},
		"twelve to a CPU":       {times(3, 1000), times(37, 80)},
		"beside one that stays": {[]int32{700, 1000}, times(6, 300)},
		"above half":            {times(2, 1000), times(3, 501)},
	} {
		t.Run(name, func(t *testing.T) {
			p := packer{room: test.room}
			for i, milli := range test.items {
				p.items = append(p.items, packItem{milli: milli, item: int32(i)})
			}
			p.sort()
			if !p.exceedsBound(0) {
				t.Error("not known to be too much")
			}
			if fits(slices.Clone(test.room), test.items, map[string]bool{}) {
				t.Error("it fits")
			}
			p.items = append([]packItem{{milli: 1000}}, p.items...) // a first one that is not to be packed
			if !p.exceedsBound(1) || p.weigh(1, 3) != p.weigh(0, 3)-3000 {
				t.Error("the first one counts")
			}
		})
	}
}

// packBound's bisection finds the same fraction as an independent bisection over complete item lists.
func TestPackable(t *testing.T) {
	part := rapid.OneOf(rapid.Int16Range(1, 999), rapid.SampledFrom([]int16{100, 250, 499, 500, 501, 750, 999}))
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(0, boundItems).Draw(t, "count")
		parts := rapid.SliceOfN(part, count, count).Draw(t, "parts")
		slices.Sort(parts)
		var items itemList
		for _, part := range parts {
			items.insert(int32(part))
		}
		bins, low, high := items.minBins(), int32(0), int32(1000)
		for high-low > packSteps {
			with, middle := items, (low+high)/2
			if with.insert(middle); with.minBins() <= bins {
				low = middle
			} else {
				high = middle
			}
		}
		if gotBins, got := packBound(parts); gotBins != bins || got != high-1 {
			t.Errorf("%v: %d bins and %dm, want %d and %dm", parts, gotBins, got, bins, high-1)
		}
	})
}
