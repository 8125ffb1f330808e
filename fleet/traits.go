package fleet

import "github.com/candor-project/candor/hybrid"

// A feature is a small figure of a node from which bounds of its score are computed. More is better for all traits, so the traits of many
// nodes together are the maximum of each. Figures that are better low are subtracted from the top, and figures out of range are rounded so
// that a bound stays a bound.
type feature uint

const (
	featureFreeTime            feature = iota // CPU time that containers can have, milli-CPU
	featureFreeAmount1                        // free amount of the first further resource, in Fleet.units
	featureFreeAmount2                        // of the second resource
	featureIsOpaque                           // 1: only the node itself has the answer
	featureCPUShare                           // traitFreeTime as a share (wholeShare)
	featureCPUShareInverted                   // the same from the top
	featureShare1                             // traitFree1 as a share
	featureShare2                             // of the second resource
	featureShare1Inverted                     // the same from the top
	featureShare2Inverted                     //
	featureShareSum                           // free share of CPU and of these in sum, in 1<<sumShift, rounded up
	featureNextLentInverted                   // hybrid.Figures.NextLent, from the top
	featureSecondLentInverted                 // Figures.SecondLent, from the top
	featureMaxUnlent                          // Figures.MaxUnlentGuarantee
	featureMaxUnlentPlusNext                  // the same with another lent CPU
	featureSlack                              // Figures.Slack
	featureSlackPlusNext                      // the same with another lent CPU
	featureMaxStrictLimit                     // Figures.MaxStrictLimit
	featureSharedCPUs                         // Figures.SharedCPUs
	featureSpareCPUs                          // Figures.SpareCPUs
	featureMaxRoom                            // Figures.MaxRoom
	featureMaxSharedRoom                      // Figures.MaxSharedRoom
	featureMinJoinCostInverted                // Figures.MinJoinCost, from the top
	featureTakeCPUCostInverted                // Figures.TakeCPUCost, from the top

	featureCount

	// The algorithm Paper does not use the replaced traits.
	featurePaperMaxRoomInverted   = featureSlack            // Figures.PaperMaxRoom, from the top
	featurePaperMaxTwoRooms       = featureSlackPlusNext    // Figures.PaperMaxTwoRooms
	featurePaperNoFlexible        = featureMaxStrictLimit   // 1: no flexible container
	featurePaperFirstLentInverted = featureNextLentInverted // Figures.PaperFirstLent, from the top

	// In the order Candor with a single further resource, these replace the traits of the second resource.
	featureSumTwiceCPU   = featureShare2         // free share of CPU twice, and of the resource, in 1<<sumShift, rounded up
	featureSumTwiceOther = featureShare2Inverted // of CPU, and of the resource twice, likewise
	featureCPUMinusOther = featureFreeAmount2    // of CPU, and of the resource from the top, in 2, rounded up
)

// maxFeature is the value from which figures that are better low are subtracted.
const maxFeature = 1<<16 - 1

// indexedResources is the number of further resources in the traits.
const indexedResources = 2

// sumShift scales the sum of shares into range.
const sumShift = 2

// features are the traits of a node, or the maxima of several nodes, from the lowest lane of the first word on. The first word holds the
// minimum requirements of a container.
type features [featureCount / lanes]uint64

// featuresOf returns a node's traits.
func (f *Fleet) featuresOf(id NodeID, g *hybrid.Figures) features {
	shares := f.sharesOf(id)
	t := featureList{
		featureFreeTime: encodeTime(g.Free[hybrid.Flexible]),
		featureIsOpaque: flag(g.IsOpaque), featureNextLentInverted: maxFeature - g.NextLent, featureSecondLentInverted: maxFeature - g.SecondLent, featureMaxUnlent: encodeTime(g.MaxUnlentGuarantee),
		featureSlack: encodeTime(g.Slack), featureMaxStrictLimit: encodeTime(g.MaxStrictLimit), featureSharedCPUs: g.SharedCPUs, featureSpareCPUs: g.SpareCPUs, featureMaxRoom: g.MaxRoom,
		featureMaxSharedRoom: g.MaxSharedRoom, featureMinJoinCostInverted: maxFeature - g.MinJoinCost, featureTakeCPUCostInverted: maxFeature - g.TakeCPUCost,
	}
	if spare := 1000 - int32(g.NextLent); spare > 0 {
		t[featureMaxUnlentPlusNext], t[featureSlackPlusNext] = encodeTime(max(g.MaxUnlentGuarantee, 0)+spare), encodeTime(g.Slack+spare)
	}
	if f.usesPaper() {
		t[featurePaperMaxRoomInverted], t[featurePaperMaxTwoRooms], t[featurePaperNoFlexible] = maxFeature-g.PaperMaxRoom, g.PaperMaxTwoRooms, flag(!g.HasFlexible)
		t[featurePaperFirstLentInverted] = maxFeature - g.PaperFirstLent
	}
	for i := range shares[1:min(len(shares), 1+indexedResources)] {
		t[featureFreeAmount1+feature(i)] = f.unitsOf(i, f.freeOf(id)[i])
	}
	t.setShares(shares, f.options.Order)
	return t.pack()
}

// A featureList is traits by themselves.
type featureList [featureCount]uint16

// setShares sets the traits of the free shares of CPU and of the further resources.
func (t *featureList) setShares(shares []int32, order Order) {
	sum := shares[0]
	t[featureCPUShare], t[featureCPUShareInverted] = uint16(sum), maxFeature-uint16(sum)
	for i, share := range shares[1:min(len(shares), 1+indexedResources)] {
		sum += share
		t[featureShare1+feature(i)], t[featureShare1Inverted+feature(i)] = uint16(share), maxFeature-uint16(share)
	}
	t[featureShareSum] = encodeShareSum(sum)
	if len(shares) == 2 && order == Candor {
		t[featureSumTwiceCPU], t[featureSumTwiceOther] = encodeShareSum(sum+shares[0]), encodeShareSum(sum+shares[1])
		t[featureCPUMinusOther] = uint16((shares[0] + maxFeature - shares[1] + 1) / 2)
	}
}

// pack puts them into words.
func (t *featureList) pack() (packed features) {
	for i := range packed {
		four := t[i*lanes : i*lanes+lanes]
		packed[i] = uint64(four[0]) | uint64(four[1])<<laneBits | uint64(four[2])<<(2*laneBits) | uint64(four[3])<<(3*laneBits)
	}
	return packed
}

// unitsOf converts an amount of a further resource to units that are the same for all nodes, rounded down: the first node has 4096 of them.
// Amounts out of range are clamped.
func (f *Fleet) unitsOf(resource int, amount int64) uint16 {
	return uint16(min(float64(max(0, amount))*f.units[resource], maxFeature))
}

// encodeShareSum is a sum of up to four shares as a trait, rounded up.
func encodeShareSum(sum int32) uint16 { return uint16((sum + 1<<sumShift - 1) >> sumShift) }

// encodeTime is a time as a trait; those beyond 65 CPUs count as that.
func encodeTime(milli int32) uint16 { return uint16(min(max(0, milli), maxFeature)) }

// decodeTime returns the highest time that a trait can represent.
func decodeTime(t uint16) int32 {
	if t == maxFeature {
		return int32(hybrid.MaxLimit)
	}
	return int32(t)
}

func flag(isSet bool) uint16 {
	if isSet {
		return 1
	}
	return 0
}
