package trace

import (
	"bytes"
	_ "embed"
	"fmt"
)

// The constants of this file describe the cell (Google's word for a cluster) of Google's trace. They are from a published study
// (Reiss et al., SoCC 2012) and from statistics of the trace's tables.

// cellMachines is the number of machines in the real cell at the start. All other counts are for a cell of this size.
const cellMachines = 12477

// A machineType is a size of machines, with the number of such machines among cellMachines.
type machineType struct {
	capacity
	count int
}

var machineTypes = []machineType{
	{capacity{One / 2, 499_500_000}, 6672},
	{capacity{One / 2, 249_300_000}, 3835},
	{capacity{One / 2, 749_000_000}, 992},
	{capacity{One, One}, 788},
	{capacity{One / 4, 249_800_000}, 123},
	{capacity{One / 2, 124_100_000}, 54},
	{capacity{One / 2, 30_850_000}, 5},
	{capacity{One / 2, 967_800_000}, 4},
	{capacity{One, One / 2}, 3},
	{capacity{One / 2, 61_580_000}, 1},
}

// Removals of machines: 8,957 removals of 5,141 machines in 29 days. Some machines are removed often. Each machine therefore has a removal
// rate of its own, drawn from an exponential distribution. Downtimes are log-normal with p50 1,000 s and p90 8.7 h.
const (
	removalsPerDay = 8957.0 / 29 / cellMachines // mean per machine
	downMedian     = 1000.0                     // seconds
	downSigma      = 2.69
)

// Jobs: 960 per hour on average over the month, of which about 200 have long containers. The rate of short jobs depends on the hour of the
// day, with noise that is correlated over several hours. The trace starts on a Sunday at 19:00.
const (
	jobsPerHour = 740.0
	firstHour   = 19
	hourSigma   = 0.24
	hourMemory  = 0.66 // correlation of consecutive hours
)

// hourly is the rate of jobs in each hour of a day relative to the mean: on weekdays, and at the weekend.
var hourly = [2][24]float64{
	{1.35, 1.02, 0.98, 0.96, 1.15, 0.88, 0.85, 0.90, 0.98, 0.95, 1.14, 1.11, 1.03, 1.10, 1.02, 1.20, 1.33, 1.33, 1.21, 1.15, 1.10, 1.01, 0.93, 0.84},
	{1.35, 0.98, 0.97, 0.87, 1.19, 0.75, 0.76, 0.84, 0.88, 0.86, 0.83, 0.75, 0.81, 0.66, 0.71, 0.74, 0.81, 0.67, 0.71, 0.80, 0.85, 0.80, 0.79, 0.83},
}

// A cellClass holds the parameters of a scheduling class. Containers are long or short. Long containers are replaced when they end, so that
// the number of long containers is about constant.
type cellClass struct {
	running  float64        // containers at the start
	short    float64        // share of short containers in running
	longLife float64        // mean duration of long containers in seconds; exponential distribution
	longEnds [Lost]float64  // shares of the reasons for which long containers end
	jobs     float64        // share of the class in all short jobs
	sizes    []sizeQuantile // quantiles of the tasks per job
	median   float64        // of the duration of short containers in seconds; log-normal distribution
	sigma    float64
	spread   [2]float64 // share of containers with DifferentMachines, by population (running, arriving)
	priority [2]uint8   // most frequent priority, by population (running, arriving)
}

// maxJobSize is the maximum number of tasks of a job.
const maxJobSize = 4000

// A sizeQuantile is a quantile of the tasks per job.
type sizeQuantile struct{ share, tasks float64 }

// shortEnds are the probabilities of the reasons for which short containers of any class end.
var shortEnds = [Lost]float64{Finished: 0.86, Evicted: 0.015, Failed: 0.005, Killed: 0.12}

var cellClasses = [4]cellClass{
	{
		running: 42279, short: 0.09, longLife: 54_000, longEnds: [Lost]float64{0.58, 0.34, 0.02, 0.06},
		jobs: 0.36, sizes: []sizeQuantile{{0.5, 1}, {0.75, 14}, {0.9, 100}, {0.95, 1050}, {0.99, 1050}, {1, 4000}},
		median: 310, sigma: 0.95, spread: [2]float64{0.10, 0.63}, priority: [2]uint8{0, 2},
	}, {
		running: 25238, short: 0.02, longLife: 114_000, longEnds: [Lost]float64{0.45, 0.49, 0.04, 0.02},
		jobs: 0.43, sizes: []sizeQuantile{{0.9, 1}, {0.95, 3}, {0.99, 60}, {1, 315}},
		median: 600, sigma: 1.3, spread: [2]float64{0.06, 0.10}, priority: [2]uint8{9, 2},
	}, {
		running: 37557, short: 0.01, longLife: 396_000, longEnds: [Lost]float64{0.02, 0.65, 0.03, 0.30},
		jobs: 0.20, sizes: []sizeQuantile{{0.95, 1}, {0.99, 31}, {1, 315}},
		median: 300, sigma: 1.2, spread: [2]float64{0.39, 0.03}, priority: [2]uint8{9, 0},
	}, {
		running: 27908, short: 0.001, longLife: 574_000, longEnds: [Lost]float64{0, 0.07, 0.04, 0.89},
		jobs: 0.01, sizes: []sizeQuantile{{0.5, 1}, {0.9, 4}, {1, 128}},
		median: 540, sigma: 1.2, spread: [2]float64{0.51, 0.34}, priority: [2]uint8{9, 9},
	},
}

// Some containers of class 2 are broken: they end soon and are submitted again hundreds of times. This is why the trace has 48 million
// submits of 25 million tasks. Broken containers are more frequent in working hours.
const (
	loopShareWork = 0.24
	loopShareRest = 0.07
	loopMean      = 750 // submits
	loopMedian    = 25  // seconds; median duration of a run
	loopSigma     = 0.25
)

// sizeFactor makes tasks of large jobs run longer: their duration is proportional to the size of the job to the power of sizeFactor.
const sizeFactor = 0.05

//go:embed cell.csv
var cellTable []byte

// A cellShapes holds the requests of the containers of a class: each of the 100 requests is equally frequent.
type cellShapes [100]capacity

// The populations in cell.csv: containers that run at the start, and containers that arrive later.
const (
	running = iota
	arriving
)

// readCell reads cell.csv.
func readCell() (*[2][4]cellShapes, error) {
	var cell [2][4]cellShapes
	var filled [2][4]int
	t := newTable("cell.csv", bytes.NewReader(cellTable), nil)
	for t.next() == nil {
		population := arriving
		if string(t.fields[0]) == "running" {
			population = running
		}
		class := t.fields[1][0] - '0'
		cpu, okCPU := parseScaled(t.fields[2], 9)
		memory, okMemory := parseScaled(t.fields[3], 9)
		count, okCount := parseUint(t.fields[4])
		if !okCPU || !okMemory || !okCount {
			return nil, fmt.Errorf("%s: bad row", t.place())
		}
		for range count {
			cell[population][class][filled[population][class]] = capacity{int32(cpu), int32(memory)}
			filled[population][class]++
		}
	}
	return &cell, nil
}
