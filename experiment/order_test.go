package experiment

import (
	"fmt"
	"slices"
	"testing"
)

// TestCompareOrder: the comparison of a setup with the first setup does not depend on the order of the other setups.
func TestCompareOrder(t *testing.T) {
	report := func(order ...int) *Report {
		r := &Report{Metrics: []ReportMetric{{Name: "time"}}, Rounds: 12}
		for at, kind := range order {
			r.Setups = append(r.Setups, Setup{Kind: Kinds[kind]})
			for round := range r.Rounds {
				value := 10 + 5*float64(round*7%12) + float64(kind)*(1+0.1*float64(round*5%12))
				r.Runs = append(r.Runs, Run{Setup: at, Round: round, Values: map[string]float64{"time": value}})
			}
		}
		return r
	}
	one, other := report(0, 1, 2, 3).Compare("time"), report(0, 3, 2, 1).Compare("time")
	for i, j := range map[int]int{1: 3, 2: 2, 3: 1} {
		if a, b := one[i], other[j]; *a.Against != *b.Against || a.Spread != b.Spread || a.Against.P > 0.001 {
			t.Errorf("%v: %+v at index %d, %+v at index %d; want equal values and a small p", a.Setup, *a.Against, i, *b.Against, j)
		}
	}
}

// TestOrder: each round contains each setup once, in a random order that depends on the seed alone.
func TestOrder(t *testing.T) {
	order := Order(5, 40, 1)
	different := 0
	for i, round := range order {
		sorted := slices.Sorted(slices.Values(round))
		if !slices.Equal(sorted, []int{0, 1, 2, 3, 4}) {
			t.Errorf("round %d: %v", i, round)
		}
		if i > 0 && !slices.Equal(round, order[i-1]) {
			different++
		}
	}
	if different < 30 {
		t.Errorf("only %d rounds differ from the previous round", different)
	}
	if fmt.Sprint(order) != fmt.Sprint(Order(5, 40, 1)) || fmt.Sprint(order) == fmt.Sprint(Order(5, 40, 2)) {
		t.Error("the order does not depend on the seed alone")
	}
}
