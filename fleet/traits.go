package fleet

import "github.com/candor-project/candor/hybrid"

// A trait is a small figure of a node from which bounds of its score are made. All are the
// more the better, so the traits of many nodes together are the most of each: what is better
// low is counted from the top, and what does not fit is rounded so that a bound stays one.
type trait uint

const (
	traitFreeTime   trait = iota // CPU time that containers can have, milli-CPU
	traitFree1                   // free amount of the first further resource, in Fleet.units
	traitFree2                   // of the second one
	traitOpaque                  // 1: only the node itself can tell
	traitFreeCPU                 // traitFreeTime as a share (wholeShare)
	traitLeastCPU                // the same from the top
	traitMost1                   // traitFree1 as a share
	traitMost2                   // of the second one
	traitLeast1                  // the same from the top
	traitLeast2                  //
	traitFreeSum                 // free share of CPU and of these in sum, in 1<<sumShift, rounded up
	traitNextLent                // hybrid.Figures.NextLent, from the top
	traitThenLent                // Figures.SecondLent, from the top
	traitCalm                    // Figures.MaxUnlentGuarantee
	traitCalmOne                 // the same while one CPU more is lent
	traitSlack                   // Figures.Slack
	traitSlackOne                // the same while one CPU more is lent
	traitMostLimit               // Figures.MaxStrictLimit
	traitShared                  // Figures.SharedCPUs
	traitSpare                   // Figures.SpareCPUs
	traitRoom                    // Figures.MaxRoom
	traitSharedRoom              // Figures.MaxSharedRoom
	traitJoinLeast               // Figures.MinJoinCost, from the top
	traitTakeOne                 // Figures.TakeCPUCost, from the top

	allTraits

	// By the algorithm Paper, which has no use for what these stand in place of:
	traitRoomLeast = traitSlack     // Figures.PaperMaxRoom, from the top
	traitTwoRooms  = traitSlackOne  // Figures.PaperMaxTwoRooms
	traitWithNone  = traitMostLimit // 1: no flexible container
	traitFirstLent = traitNextLent  // Figures.PaperFirstLent, from the top

	// By the order Candor where there is one further resource, so that these tell of no second one:
	traitMoreCPU   = traitMost2  // free share of CPU twice, and of the resource, in 1<<sumShift, rounded up
	traitMoreOther = traitLeast2 // of CPU, and of the resource twice, likewise
	traitCPULess   = traitFree2  // of CPU, and of the resource from the top, in 2, rounded up
)

// top is what traits that are better low are counted from.
const top = 1<<16 - 1

// moreResources is how many of the further resources traits tell of.
const moreResources = 2

// sumShift makes the sum of so many shares fit.
const sumShift = 2

// traits of a node, or of several together, from the lowest lane of the first word on. The first word
// is what a node must have for a container at least.
type traits [allTraits / lanes]uint64

// traitsOf returns a node's traits.
func (f *Fleet) traitsOf(id NodeID, g *hybrid.Figures) traits {
	shares := f.sharesOf(id)
	t := traitList{
		traitFreeTime: timeTrait(g.Free[hybrid.Flexible]),
		traitOpaque:   flag(g.IsOpaque), traitNextLent: top - g.NextLent, traitThenLent: top - g.SecondLent, traitCalm: timeTrait(g.MaxUnlentGuarantee),
		traitSlack: timeTrait(g.Slack), traitMostLimit: timeTrait(g.MaxStrictLimit), traitShared: g.SharedCPUs, traitSpare: g.SpareCPUs, traitRoom: g.MaxRoom,
		traitSharedRoom: g.MaxSharedRoom, traitJoinLeast: top - g.MinJoinCost, traitTakeOne: top - g.TakeCPUCost,
	}
	if one := 1000 - int32(g.NextLent); one > 0 {
		t[traitCalmOne], t[traitSlackOne] = timeTrait(max(g.MaxUnlentGuarantee, 0)+one), timeTrait(g.Slack+one)
	}
	if f.byPaper() {
		t[traitRoomLeast], t[traitTwoRooms], t[traitWithNone] = top-g.PaperMaxRoom, g.PaperMaxTwoRooms, flag(!g.HasFlexible)
		t[traitFirstLent] = top - g.PaperFirstLent
	}
	for i := range shares[1:min(len(shares), 1+moreResources)] {
		t[traitFree1+trait(i)] = f.unitsOf(i, f.freeOf(id)[i])
	}
	t.setShares(shares, f.options.Order)
	return t.pack()
}

// A traitList is traits by themselves.
type traitList [allTraits]uint16

// setShares sets what traits tell of the free shares of CPU and of the further resources.
func (t *traitList) setShares(shares []int32, order Order) {
	sum := shares[0]
	t[traitFreeCPU], t[traitLeastCPU] = uint16(sum), top-uint16(sum)
	for i, share := range shares[1:min(len(shares), 1+moreResources)] {
		sum += share
		t[traitMost1+trait(i)], t[traitLeast1+trait(i)] = uint16(share), top-uint16(share)
	}
	t[traitFreeSum] = sumTrait(sum)
	if len(shares) == 2 && order == Candor {
		t[traitMoreCPU], t[traitMoreOther] = sumTrait(sum+shares[0]), sumTrait(sum+shares[1])
		t[traitCPULess] = uint16((shares[0] + top - shares[1] + 1) / 2)
	}
}

// pack puts them into words.
func (t *traitList) pack() (packed traits) {
	for i := range packed {
		four := t[i*lanes : i*lanes+lanes]
		packed[i] = uint64(four[0]) | uint64(four[1])<<laneBits | uint64(four[2])<<(2*laneBits) | uint64(four[3])<<(3*laneBits)
	}
	return packed
}

// unitsOf returns an amount of a further resource in units that are the same for all nodes, rounded
// down: 4096 are what the first node has, and larger amounts than fit count as what does.
func (f *Fleet) unitsOf(resource int, amount int64) uint16 {
	return uint16(min(float64(max(0, amount))*f.units[resource], top))
}

// sumTrait is a sum of up to four shares as a trait, rounded up.
func sumTrait(sum int32) uint16 { return uint16((sum + 1<<sumShift - 1) >> sumShift) }

// timeTrait is a time as a trait; those beyond 65 CPUs count as that.
func timeTrait(milli int32) uint16 { return uint16(min(max(0, milli), top)) }

// timeOf returns the most time of which a trait tells.
func timeOf(t uint16) int32 {
	if t == top {
		return int32(hybrid.MaxLimit)
	}
	return int32(t)
}

func flag(is bool) uint16 {
	if is {
		return 1
	}
	return 0
}
