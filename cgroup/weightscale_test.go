package cgroup

import "testing"

func TestRuntimeWeightScale(t *testing.T) {
	for _, c := range []struct{ shares, linear, quadratic int64 }{
		{0, 100, 100}, {1, 1, 1}, {2, 1, 1}, {102, 4, 17}, {256, 10, 35}, {512, 20, 59}, {1024, 39, 100}, {2048, 79, 174},
		{262144, 10000, 10000}, {1 << 40, 10000, 10000},
	} {
		if got := LinearWeights.Weight(c.shares); got != c.linear {
			t.Errorf("linear: %d shares give %d, want %d", c.shares, got, c.linear)
		}
		if got := QuadraticWeights.Weight(c.shares); got != c.quadratic {
			t.Errorf("quadratic: %d shares give %d, want %d", c.shares, got, c.quadratic)
		}
	}
}

func TestWeightScaleOf(t *testing.T) {
	for _, c := range []struct {
		weight int64
		shares []int64
		scale  WeightScale
		ok     bool
	}{
		{39, []int64{1024}, LinearWeights, true},
		{100, []int64{1024}, QuadraticWeights, true},
		{59, []int64{511, 512}, QuadraticWeights, true},
		{20, []int64{511, 512}, LinearWeights, true},
		{1, []int64{2}, "", false},       // both scales
		{1234, []int64{1024}, "", false}, // no scale: another program has written the weight
	} {
		scale, ok := WeightScaleOf(c.weight, c.shares...)
		if ok != c.ok || ok && scale != c.scale {
			t.Errorf("weight %d of %d: %s %v, want %s %v", c.weight, c.shares, scale, ok, c.scale, c.ok)
		}
	}
}

func TestRuntimeWeight(t *testing.T) {
	v1, v2 := &Tree{cpu: &hierarchy{}}, &Tree{cpu: &hierarchy{v2: true}}
	for shares, want := range map[int64][2]int64{0: {1024, 100}, 1: {2, 1}, 512: {512, 20}, 1 << 30: {262144, 10000}} {
		got := [2]int64{v1.RuntimeWeight(shares, LinearWeights), v2.RuntimeWeight(shares, LinearWeights)}
		if got != want {
			t.Errorf("%d shares: %d, want %d (v1, v2)", shares, got, want)
		}
	}
}
