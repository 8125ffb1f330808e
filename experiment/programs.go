package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/candor-project/candor/internal/interference"
)

// Programs combines the reports of several programs with the same first setup on the same machine, as figures 1 to 3
// of the paper do.
type Programs struct {
	Machine  Machine   `json:"machine"`
	Base     Setup     `json:"base"` // the baseline setup
	Setups   []Setup   `json:"setups"`
	Programs []Program `json:"programs"`
}

// A Program is the summary of one report.
type Program struct {
	Name   string       `json:"name"`
	Metric ReportMetric `json:"metric"` // the last metric of the report
	Base   Spread       `json:"base"`   // values of the metric under the baseline
	Gains  []*Gain      `json:"gains"`  // by index in Programs.Setups; nil if the report does not compare the setup
	// Interference is the interference of the report.
	Interference *interference.Report `json:"interference,omitempty"`
}

// A Gain is a setup's improvement over the baseline. A ratio above 1 is better, for metrics of both directions.
type Gain struct {
	Ratio    float64  `json:"ratio"`
	Interval Interval `json:"ci,omitzero"` // 95 % interval of Ratio; absent with fewer than six pairs
	P        float64  `json:"p"`
	Pairs    int      `json:"pairs"`
	Failed   int      `json:"failed"` // failed rounds of this setup
}

// ProgramName returns the name of a report's program.
func (r *Report) ProgramName() string {
	command := r.Command
	switch {
	case r.Image != nil:
		return cmp.Or(r.Name, r.Image.Name)
	case len(r.Server) > 0:
		command = r.Server
	}
	return cmp.Or(r.Name, filepath.Base(command[0]))
}

// ErrOtherBase means that reports do not fit into one table.
var ErrOtherBase = errors.New("cannot compare the reports")

// Together combines reports. They must have the same machine and the same first setup.
func Together(reports []*Report) (*Programs, error) {
	p := &Programs{Machine: reports[0].Machine, Base: reports[0].Setups[0]}
	p.Machine.Load = "" // the load differs between reports
	for _, r := range reports {
		if err := p.checkReport(r); err != nil {
			return nil, err
		}
		for _, s := range r.Setups[1:] {
			if !slices.Contains(p.Setups, s) {
				p.Setups = append(p.Setups, s)
			}
		}
	}
	for _, r := range reports {
		p.Programs = append(p.Programs, p.program(r))
	}
	return p, p.checkNames()
}

// checkReport returns an error if a report has another first setup or another machine than the first report.
func (p *Programs) checkReport(r *Report) error {
	machine := r.Machine
	machine.Load = ""
	switch {
	case r.Setups[0] != p.Base:
		return fmt.Errorf("%w: the baseline of %s is %v at %v, of the first report %v at %v", ErrOtherBase, r.ProgramName(),
			r.Setups[0], r.Setups[0].Limit, p.Base, p.Base.Limit)
	case machine != p.Machine:
		return fmt.Errorf("%w: %s ran on %s, %d CPUs, Linux %s, the first on %s, %d CPUs, Linux %s", ErrOtherBase, r.ProgramName(),
			machine.Model, machine.CPUs, machine.Kernel, p.Machine.Model, p.Machine.CPUs, p.Machine.Kernel)
	}
	return nil
}

func (p *Programs) checkNames() error {
	for i := range p.Programs {
		name := p.Programs[i].Name
		if slices.ContainsFunc(p.Programs[:i], func(other Program) bool { return other.Name == name }) {
			return fmt.Errorf("%w: two programs have the name %q; use candor compare --name", ErrOtherBase, name)
		}
	}
	return nil
}

// program returns the summary of a report.
func (p *Programs) program(r *Report) Program {
	metric := r.Metrics[len(r.Metrics)-1]
	comparisons := r.Compare(metric.Name)
	program := Program{Name: r.ProgramName(), Metric: metric, Base: comparisons[0].Spread, Gains: make([]*Gain, len(p.Setups)),
		Interference: r.Interference}
	for _, c := range comparisons[1:] {
		if c.Against != nil {
			program.Gains[slices.Index(p.Setups, c.Setup)] = c.gain(metric.HigherIsBetter)
		}
	}
	return program
}

// gain converts a comparison, so that a ratio above 1 is better for both directions of the metric.
func (c *Comparison) gain(higherIsBetter bool) *Gain {
	g := &Gain{Ratio: c.Against.Ratio, Interval: c.Against.Interval, P: c.Against.P, Pairs: c.Against.Pairs, Failed: c.Failed}
	if !higherIsBetter {
		g.Ratio, g.Interval = 1/g.Ratio, g.Interval.invert()
	}
	return g
}
