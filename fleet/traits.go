package fleet

import "github.com/candor-project/candor/hybrid"

// A trait is a small figure of a node from which bounds of its score are computed. More is better for all traits, so the traits of many
// nodes together are the maximum of each. Figures that are better low are subtracted from the top, and figures out of range are rounded so
// that a bound stays a bound.
type trait uint

const (
	traitFreeTime   trait = iota // CPU time that containers can have, milli-CPU
	traitFree1                   // free amount of the first further resource, in Fleet.units
	traitFree2                   // of the second resource
	traitOpaque                  // 1: only the node itself has the answer
	traitFreeCPU                 // traitFreeTime as a share (wholeShare)
	traitLeastCPU                // the same from the top
	traitMost1                   // traitFree1 as a share
	traitMost2                   // of the second resource
	traitLeast1                  // the same from the top
	traitLeast2                  //
	traitFreeSum                 // free share of CPU and of these in sum, in 1<<sumShift, rounded up
	traitNextLent                // hybrid.Figures.NextLent, from the top
	traitThenLent                // Figures.SecondLent, from the top
	traitCalm                    // Figures.MaxUnlentGuarantee
	traitCalmOne                 // the same with another lent CPU
	traitSlack                   // Figures.Slack
	traitSlackOne                // the same with another lent CPU
	traitMostLimit               // Figures.MaxStrictLimit
	traitShared                  // Figures.SharedCPUs
	traitSpare                   // Figures.SpareCPUs
	traitRoom                    // Figures.MaxRoom
	traitSharedRoom              // Figures.MaxSharedRoom
	traitJoinLeast               // Figures.MinJoinCost, from the top
	traitTakeOne                 // Figures.TakeCPUCost, from the top

	allTraits

	// The algorithm Paper does not use the replaced traits.
	traitRoomLeast = traitSlack     // Figures.PaperMaxRoom, from the top
	traitTwoRooms  = traitSlackOne  // Figures.PaperMaxTwoRooms
	traitWithNone  = traitMostLimit // 1: no flexible container
	traitFirstLent = traitNextLent  // Figures.PaperFirstLent, from the top

	// In the order Candor with a single further resource, these replace the traits of the second resource.
	traitMoreCPU   = traitMost2  // free share of CPU twice, and of the resource, in 1<<sumShift, rounded up
	traitMoreOther = traitLeast2 // of CPU, and of the resource twice, likewise
	traitCPULess   = traitFree2  // of CPU, and of the resource from the top, in 2, rounded up
)

// top is the value from which figures that are better low are subtracted.
const top = 1<<16 - 1

// moreResources is the number of further resources in the traits.
const moreResources = 2

// sumShift scales the sum of shares into range.
const sumShift = 2

// traits are the traits of a node, or the maxima of several nodes, from the lowest lane of the first word on. The first word holds the
// minimum requirements of a container.
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

// setShares sets the traits of the free shares of CPU and of the further resources.
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

// unitsOf converts an amount of a further resource to units that are the same for all nodes, rounded down: the first node has 4096 of them.
// Amounts out of range are clamped.
func (f *Fleet) unitsOf(resource int, amount int64) uint16 {
	return uint16(min(float64(max(0, amount))*f.units[resource], top))
}

// sumTrait is a sum of up to four shares as a trait, rounded up.
func sumTrait(sum int32) uint16 { return uint16((sum + 1<<sumShift - 1) >> sumShift) }

// timeTrait is a time as a trait; those beyond 65 CPUs count as that.
func timeTrait(milli int32) uint16 { return uint16(min(max(0, milli), top)) }

// timeOf returns the highest time that a trait can represent.
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
