package fleet

import "github.com/candor-project/candor/hybrid"

// A feature is a 16-bit number that describes a node. Bounds on the node's score are computed from its features; hybrid.Summary explains
// the terms, such as lent and slack. A higher value is better for every feature, so the features of a group of nodes are the maximum of
// each feature over these nodes. If lower values of a figure are better, the feature is maxFeature minus the figure ("inverted"). Rounding
// and clamping can only make a bound less tight, never wrong.
type feature uint

const (
	featureFreeTime            feature = iota // free CPU time, milli-CPU
	featureFreeAmount1                        // free amount of the first further resource, in the units of Fleet.units
	featureFreeAmount2                        // free amount of the second further resource, in the units of Fleet.units
	featureIsOpaque                           // 1: the features give no bound, because only the node itself can compute costs
	featureCPUShare                           // free share of CPU; wholeShare means that all CPU time is free
	featureCPUShareInverted                   // free share of CPU, inverted
	featureShare1                             // free share of the first further resource
	featureShare2                             // free share of the second further resource
	featureShare1Inverted                     // free share of the first further resource, inverted
	featureShare2Inverted                     // free share of the second further resource, inverted
	featureShareSum                           // sum of the free shares of CPU and of both resources, in units of 1<<sumShift, rounded up
	featureNextLentInverted                   // Figures.NextLent, inverted
	featureSecondLentInverted                 // Figures.SecondLent, inverted
	featureMaxUnlent                          // Figures.MaxUnlentGuarantee
	featureMaxUnlentPlusNext                  // Figures.MaxUnlentGuarantee, plus the room on the CPU that is lent next
	featureSlack                              // Figures.Slack
	featureSlackPlusNext                      // Figures.Slack, plus the room on the CPU that is lent next
	featureMaxStrictLimit                     // Figures.MaxStrictLimit
	featureSharedCPUs                         // Figures.SharedCPUs
	featureSpareCPUs                          // Figures.SpareCPUs
	featureMaxRoom                            // Figures.MaxRoom
	featureMaxSharedRoom                      // Figures.MaxSharedRoom
	featureMinJoinCostInverted                // Figures.MinJoinCost, inverted
	featureTakeCPUCostInverted                // Figures.TakeCPUCost, inverted

	featureCount

	// Under the algorithm Paper, these features replace features that only the algorithm Candor uses.
	featurePaperMaxRoomInverted   = featureSlack            // Figures.PaperMaxRoom, inverted
	featurePaperMaxTwoRooms       = featureSlackPlusNext    // Figures.PaperMaxTwoRooms
	featurePaperNoFlexible        = featureMaxStrictLimit   // 1: the node has no flexible container
	featurePaperFirstLentInverted = featureNextLentInverted // Figures.PaperFirstLent, inverted

	// In the order Candor with a single further resource, these features replace the features of the second resource. cpu is the free share
	// of CPU, and other the free share of the resource.
	featureSumTwiceCPU   = featureShare2         // 2*cpu + other, in units of 1<<sumShift, rounded up
	featureSumTwiceOther = featureShare2Inverted // cpu + 2*other, in units of 1<<sumShift, rounded up
	featureCPUMinusOther = featureFreeAmount2    // cpu + (maxFeature - other), in units of 2, rounded up
)

// maxFeature is the highest value of a feature.
const maxFeature = 1<<16 - 1

// indexedResources is the number of further resources that have features.
const indexedResources = 2

// sumShift scales a sum of up to four shares into the range of a feature.
const sumShift = 2

// features holds the features of a node, or of a group of nodes, four in each word (packed.go). The first feature is in the lowest bits of
// the first word. query.admits compares the first word with query.minFeatures.
type features [featureCount / lanes]uint64

// featuresOf returns the features of a node.
func (f *Fleet) featuresOf(id NodeID, g *hybrid.Figures) features {
	shares := f.sharesOf(id)
	t := featureList{
		featureFreeTime:            encodeTime(g.Free[hybrid.Flexible]),
		featureIsOpaque:            flag(g.IsOpaque),
		featureNextLentInverted:    maxFeature - g.NextLent,
		featureSecondLentInverted:  maxFeature - g.SecondLent,
		featureMaxUnlent:           encodeTime(g.MaxUnlentGuarantee),
		featureSlack:               encodeTime(g.Slack),
		featureMaxStrictLimit:      encodeTime(g.MaxStrictLimit),
		featureSharedCPUs:          g.SharedCPUs,
		featureSpareCPUs:           g.SpareCPUs,
		featureMaxRoom:             g.MaxRoom,
		featureMaxSharedRoom:       g.MaxSharedRoom,
		featureMinJoinCostInverted: maxFeature - g.MinJoinCost,
		featureTakeCPUCostInverted: maxFeature - g.TakeCPUCost,
	}
	if room := 1000 - int32(g.NextLent); room > 0 {
		t[featureMaxUnlentPlusNext], t[featureSlackPlusNext] = encodeTime(max(g.MaxUnlentGuarantee, 0)+room), encodeTime(g.Slack+room)
	}
	if f.usesPaper() {
		t[featurePaperMaxRoomInverted], t[featurePaperMaxTwoRooms] = maxFeature-g.PaperMaxRoom, g.PaperMaxTwoRooms
		t[featurePaperNoFlexible], t[featurePaperFirstLentInverted] = flag(!g.HasFlexible), maxFeature-g.PaperFirstLent
	}
	for i := range shares[1:min(len(shares), 1+indexedResources)] {
		t[featureFreeAmount1+feature(i)] = f.unitsOf(i, f.freeOf(id)[i])
	}
	t.setShares(shares, f.options.Order)
	return t.pack()
}

// A featureList holds the features of a node before they are packed, each in an element of its own.
type featureList [featureCount]uint16

// setShares sets the features that are computed from the free shares of CPU and of the further resources.
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

// pack packs the features into words.
func (t *featureList) pack() (packed features) {
	for i := range packed {
		four := t[i*lanes : i*lanes+lanes]
		packed[i] = uint64(four[0]) | uint64(four[1])<<laneBits | uint64(four[2])<<(2*laneBits) | uint64(four[3])<<(3*laneBits)
	}
	return packed
}

// unitsOf converts an amount of a further resource to units, rounded down and clamped. For all nodes, a unit is 1/4096 of the capacity of
// the first kind of node that has the resource.
func (f *Fleet) unitsOf(resource int, amount int64) uint16 {
	return uint16(min(float64(max(0, amount))*f.units[resource], maxFeature))
}

// encodeShareSum converts a sum of up to four shares to the value of a feature, rounded up.
func encodeShareSum(sum int32) uint16 { return uint16((sum + 1<<sumShift - 1) >> sumShift) }

// encodeTime converts a CPU time in milli-CPU to the value of a feature. Times above maxFeature, about 65 CPUs, are clamped.
func encodeTime(milli int32) uint16 { return uint16(min(max(0, milli), maxFeature)) }

// decodeTime returns the highest CPU time that encodeTime converts to this value.
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
