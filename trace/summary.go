package trace

import (
	"io"
	"math"
	"slices"
)

// A Summary summarizes a whole trace. CPU is in cores. If the trace has fractions of the largest machine, the fractions are multiplied by
// CoresOfLargest.
type Summary struct {
	Header         Header  `json:"header"`
	CoresOfLargest float64 `json:"coresOfLargest,omitempty"` // only if the unit is LargestMachine
	Machines       struct {
		Start    int64         `json:"start"` // machines at time 0
		All      int64         `json:"all"`   // different machines
		Removals int64         `json:"removals"`
		Updates  int64         `json:"updates"`
		Cores    float64       `json:"cores"` // at the start
		Mix      []MachineKind `json:"mix"`   // at the start, the most frequent first
	} `json:"machines"`
	Containers struct {
		Start  int64            `json:"start"` // running at the start
		New    int64            `json:"new"`
		AtOnce int64            `json:"atOnce"` // maximum number of simultaneous containers
		Ends   map[string]int64 `json:"ends"`   // by reason
	} `json:"containers"`
	Jobs        int64        `json:"jobs"`               // jobs that started during the trace
	RequestNew  Quantiles    `json:"requestNewCores"`    // of new containers
	RequestHeld Quantiles    `json:"requestHeldCores"`   // of containers that run at the start
	Arrivals    Quantiles    `json:"arrivalsPerHour"`    // new containers
	JobArrivals Quantiles    `json:"jobArrivalsPerHour"` // new jobs
	Classes     []ClassTimes `json:"classes"`
	Load        []LoadPoint  `json:"load"`
	LoadMean    float64      `json:"loadShare"` // requested CPU / capacity, averaged over time
	Report      Report       `json:"report"`
}

// A MachineKind is a group of machines with the same size.
type MachineKind struct {
	Cores  float64 `json:"cores"`
	Memory float64 `json:"memory"` // as a fraction of the largest machine, or in MiB
	Share  float64 `json:"share"`
}

// Quantiles are the quantiles of a distribution.
type Quantiles struct {
	P1   float64 `json:"p1"`
	P5   float64 `json:"p5"`
	P10  float64 `json:"p10"`
	P25  float64 `json:"p25"`
	P50  float64 `json:"p50"`
	P75  float64 `json:"p75"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// ClassTimes holds the numbers of containers of a class, and their durations in seconds.
type ClassTimes struct {
	Class
	Start    int64     `json:"start"`           // containers that run at the start
	New      int64     `json:"new"`             // containers that start later
	Cores    float64   `json:"cores"`           // requested by the containers that run at the start
	Running  int64     `json:"running"`         // containers that start during the trace and run at its end
	Duration Quantiles `json:"durationSeconds"` // of the containers that start and end during the trace
}

// A LoadPoint has the averages over an interval of time.
type LoadPoint struct {
	Seconds   float64 `json:"seconds"` // end of the interval
	Requested float64 `json:"requestedCores"`
	Capacity  float64 `json:"capacityCores"`
	Running   float64 `json:"running"` // containers
}

// Summarize reads a trace to its end. It only uses coresOfLargest, the number of cores of the largest machine, if the unit of the trace is
// LargestMachine.
func Summarize(r Reader, coresOfLargest float64) (*Summary, error) {
	s := newSummarizer(r.Header(), coresOfLargest)
	var e Event
	for {
		if err := r.Next(&e); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		s.event(&e)
	}
	return s.finish(r), nil
}

// A counter counts how often each value occurs.
type counter map[int64]int64

// quantiles returns the quantiles of the values, each converted by a function (of). missing is the number of further values of 0, which the
// counter does not contain.
func (c counter) quantiles(of func(float64) float64, missing int64) Quantiles {
	values := make([]int64, 0, len(c)+1)
	n, sum := missing, 0.0
	for v, count := range c {
		values = append(values, v)
		n += count
	}
	if n == 0 {
		return Quantiles{}
	}
	slices.Sort(values)
	for _, v := range values { // sorted, because the sum of floats depends on the order
		sum += of(float64(v)) * float64(c[v])
	}
	at := func(share float64) float64 {
		rank := min(int64(share*float64(n)), n-1) - missing
		if rank < 0 {
			return 0
		}
		for _, v := range values {
			if rank -= c[v]; rank < 0 {
				return of(float64(v))
			}
		}
		return 0
	}
	return Quantiles{at(0.01), at(0.05), at(0.1), at(0.25), at(0.5), at(0.75), at(0.9), at(0.95), at(0.99), at(1), sum / float64(n)}
}

// Durations are counted in logarithmic bins from 1 µs: each bin is 5 % longer than the previous bin.
const durationStep = 0.05

func durationBin(d Micros) int64 {
	return int64(math.Log(float64(max(d, 1)))/durationStep + 0.5)
}

// durationOf returns the middle of a bin in seconds.
func durationOf(bin float64) float64 { return math.Exp(bin*durationStep) / float64(Second) }
