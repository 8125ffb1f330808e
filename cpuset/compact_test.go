package cpuset

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCompact holds a Compact against a Set to which the same happens.
func TestCompact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{3, 63, 64, 200, Max - 1}).Draw(t, "most")
		var c Compact
		var want Set
		id := rapid.IntRange(0, most)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			cpu := id.Draw(t, "cpu")
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1, 2:
				c.Add(cpu)
				want.Add(cpu)
			case 3, 4:
				c.Remove(cpu)
				want.Remove(cpu)
			case 5:
				want = genSet(t, "assigned").Intersect(Range(0, most))
				c.Assign(&want)
			}
			checkCompact(t, &c, want)
			if c.high != nil && most < 64 {
				t.Fatal("it takes memory for ids that it has never had")
			}
		}
		if other := genSet(t, "other"); c.Overlaps(&other) != want.Overlaps(&other) || c.CountIn(&other) != want.CountIn(&other) {
			t.Fatalf("%v and %v: Overlaps or CountIn is wrong", want, other)
		}
	})
}

func checkCompact(t *rapid.T, c *Compact, want Set) {
	if c.Set() != want || c.Count() != want.Count() || c.IsEmpty() != want.IsEmpty() {
		t.Fatalf("%v, %d CPUs, empty: %v; want %v", c.Set(), c.Count(), c.IsEmpty(), want)
	}
	var walked []int
	for cpu := c.First(); cpu >= 0; cpu = c.Next(cpu + 1) {
		walked = append(walked, cpu)
	}
	if !slices.Equal(walked, want.Slice()) {
		t.Fatalf("the walk over %v goes to %v", want, walked)
	}
	for _, cpu := range []int{-5, -1, 0, 1, 62, 63, 64, 65, 127, 128, 960, Max - 1, Max, Max + 70} {
		if c.Contains(cpu) != want.Contains(cpu) || c.Next(cpu) != want.Next(cpu) {
			t.Fatalf("%v: Contains or Next(%d) is wrong: %v, %d", want, cpu, c.Contains(cpu), c.Next(cpu))
		}
	}
}
