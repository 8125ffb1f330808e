package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Gain holds measured speeds of sensitive workloads. A speed of 1 is the speed of the workload under a quota, with a view of the whole
// machine.
type Gain struct {
	Workloads int     `json:"workloads"`
	Alone     float64 `json:"alone"`  // weighted mean of the speeds with exclusive CPUs
	Shared    float64 `json:"shared"` // weighted mean of the speeds with a CPU that another container also uses
}

var gainColumns = []string{"workload", "alone", "shared", "weight"}

// ReadGain reads a CSV file: a first line "workload,alone,shared,weight", and a line for each workload. The columns alone and shared are
// speeds as in Gain. The column weight is the CPU time of containers with this workload, relative to the other workloads; its unit does
// not matter. Error messages contain the name of the file.
func ReadGain(r io.Reader, name string) (Gain, error) {
	c := csv.NewReader(r)
	c.TrimLeadingSpace = true
	header, err := c.Read()
	if err != nil && err != io.EOF {
		return Gain{}, csvError(name, err)
	}
	if !slices.Equal(header, gainColumns) {
		return Gain{}, fmt.Errorf("%s:1: columns %s: must be %s", name, strings.Join(header, ", "), strings.Join(gainColumns, ","))
	}
	var sum Gain
	weights := 0.0
	for {
		fields, err := c.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return Gain{}, csvError(name, err)
		}
		alone, shared, weight, err := parseGainLine(fields)
		if err != nil {
			line, _ := c.FieldPos(0)
			return Gain{}, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		sum.Workloads++
		sum.Alone += alone * weight
		sum.Shared += shared * weight
		weights += weight
	}
	if weights == 0 {
		return Gain{}, fmt.Errorf("%s: no workload with a weight", name)
	}
	return Gain{sum.Workloads, sum.Alone / weights, sum.Shared / weights}, nil
}

// parseGainLine parses the numbers of a line.
func parseGainLine(fields []string) (alone, shared, weight float64, err error) {
	for i, field := range []*float64{&alone, &shared, &weight} {
		v, err := strconv.ParseFloat(fields[i+1], 64)
		if err != nil || !(v >= 0 && v <= 1e6) {
			return 0, 0, 0, fmt.Errorf("%s %q: must be a number from 0 to 1000000", gainColumns[i+1], fields[i+1])
		}
		*field = v
	}
	if alone == 0 || shared == 0 {
		return 0, 0, 0, errors.New("a speed of 0: must be the speed relative to the speed under a quota, such as 1.7")
	}
	return alone, shared, weight, nil
}

// An Estimate estimates how much faster sensitive containers run with their CPUs from Candor than under a quota alone. It assumes that the measured workloads are typical of
// all sensitive containers.
type Estimate struct {
	Gain
	Points []Worth `json:"points"` // in the order of the report's points
}

// A Worth is the estimate for a point.
type Worth struct {
	label string
	Speed float64 `json:"speed"`      // mean speed of the sensitive containers
	Milli float64 `json:"quotaMilli"` // quota with which the sensitive containers would do the same work, mean over time
}

// Estimate returns the estimate for the points with these results.
func (g Gain) Estimate(points []Result) *Estimate {
	e := &Estimate{Gain: g, Points: []Worth{}}
	for i := range points {
		p := &points[i]
		speed := (1-p.S)*g.Alone + p.S*g.Shared
		label := fmt.Sprintf("%s, %s, scheduler %s, %.4g %% sensitive: %.0f CPUs, %.1f %% of their time unshared",
			p.Algorithm, p.Policy, p.Scheduler, 100*p.Sensitive, p.SensitiveMilli/1000, 100*(1-p.S))
		e.Points = append(e.Points, Worth{label, speed, speed * p.SensitiveMilli})
	}
	return e
}

// Text formats the estimate as text.
func (e *Estimate) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "An estimate from %d measured workloads (%.3g times as fast with CPUs of their own as under a quota, %.3g with a shared one):",
		e.Workloads, e.Alone, e.Shared)
	for _, w := range e.Points {
		fmt.Fprintf(&b, "\n  %s: %.3g times as fast, the work of %.0f CPUs under a quota", w.label, w.Speed, w.Milli/1000)
	}
	return b.String()
}
