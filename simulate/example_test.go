package simulate_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/simulate"
	"github.com/candor-project/candor/trace"
)

// exampleSetting returns a setting with a synthetic cell of five machines.
func exampleSetting() simulate.Setting {
	return simulate.Setting{
		Open:           func() (trace.Reader, error) { return trace.Open("synthetic:machines=5,days=0.02", trace.Options{}) },
		CoresOfLargest: 16, Overcommit: 1, Seed: 1,
	}
}

// Sweep replays the trace once for each point, and returns the results in the same order.
func Example() {
	var points []simulate.Point
	for _, algorithm := range []hybrid.Algorithm{hybrid.Candor, hybrid.Paper} {
		points = append(points, simulate.Point{
			Algorithm: algorithm, Scheduler: simulate.DefaultScheduler(algorithm), Sensitive: simulate.Selection{Share: 0.5},
		})
	}
	results, err := simulate.Sweep(context.Background(), exampleSetting(), points)
	if err != nil {
		panic(err)
	}
	candor, paper := results[0], results[1]
	fmt.Println("the same containers:", candor.Submitted == paper.Submitted)
	fmt.Println("candor shares less CPU time:", candor.S < paper.S)
	// Output:
	// the same containers: true
	// candor shares less CPU time: true
}

// FewestMachines finds the smallest cell, with the same proportions of machine types, that meets a target.
func ExampleFewestMachines() {
	target, err := simulate.ParseTarget("s<50%")
	if err != nil {
		panic(err)
	}
	points := []simulate.Point{{Sensitive: simulate.Selection{ByClass: true}}}
	results, err := simulate.FewestMachines(context.Background(), exampleSetting(), points, target)
	if err != nil {
		panic(err)
	}
	fmt.Println(target.Meets(&results[0]), results[0].Machines > 0)
	// Output: true true
}

// A Gain estimates how much faster sensitive containers run, from measured speeds.
func ExampleReadGain() {
	gain, err := simulate.ReadGain(strings.NewReader("workload,alone,shared,weight\nstream,1.5,1.25,1\n"), "measured.csv")
	if err != nil {
		panic(err)
	}
	estimate := gain.Estimate([]simulate.Result{{S: 0.5, SensitiveMilli: 8000}})
	fmt.Println(gain.Alone, gain.Shared, estimate.Points[0].Speed)
	// Output: 1.5 1.25 1.375
}
