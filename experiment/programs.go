package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Programs are the reports of several programs, held against the same set-up on the same machine: figures 1 to 3 of the
// paper are such.
type Programs struct {
	Machine  Machine   `json:"machine"`
	Base     Setup     `json:"base"` // that the others are held against
	Setups   []Setup   `json:"setups"`
	Programs []Program `json:"programs"`
}

// A Program is what one report says.
type Program struct {
	Name   string       `json:"name"`
	Metric ReportMetric `json:"metric"` // the last one of the report
	Base   Spread       `json:"base"`   // its values under the base
	Gains  []*Gain      `json:"gains"`  // by set-up; nil where it was not run
}

// A Gain is how many times better a set-up is than the base: above 1 it gains, whether less or more of the metric is better.
type Gain struct {
	Ratio    float64  `json:"ratio"`
	Interval Interval `json:"ci"` // 95 %
	P        float64  `json:"p"`
	Pairs    int      `json:"pairs"`
	Failed   int      `json:"failed"` // rounds, of this set-up
}

// ProgramName is the name of a report's program.
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

// ErrOtherBase are reports that cannot stand in one table.
var ErrOtherBase = errors.New("the reports cannot be compared")

// Together puts reports beside each other. They must be of one machine, and have the same first set-up.
func Together(reports []*Report) (*Programs, error) {
	p := &Programs{Machine: reports[0].Machine, Base: reports[0].Setups[0]}
	p.Machine.Load = "" // that of one report
	for _, r := range reports {
		if err := p.fits(r); err != nil {
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

// fits says why a report cannot stand beside the others.
func (p *Programs) fits(r *Report) error {
	machine := r.Machine
	machine.Load = ""
	switch {
	case r.Setups[0] != p.Base:
		return fmt.Errorf("%w: the base of %s is %v at %v, of the first %v at %v", ErrOtherBase, r.ProgramName(),
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
			return fmt.Errorf("%w: two programs are %q: candor compare --name gives another", ErrOtherBase, name)
		}
	}
	return nil
}

// program is a report's row.
func (p *Programs) program(r *Report) Program {
	metric := r.Metrics[len(r.Metrics)-1]
	comparisons := r.Compare(metric.Name)
	program := Program{Name: r.ProgramName(), Metric: metric, Base: comparisons[0].Spread, Gains: make([]*Gain, len(p.Setups))}
	for _, c := range comparisons[1:] {
		if c.Against != nil {
			program.Gains[slices.Index(p.Setups, c.Setup)] = c.gain(metric.HigherIsBetter)
		}
	}
	return program
}

// gain turns a comparison so that more is better.
func (c *Comparison) gain(higherIsBetter bool) *Gain {
	g := &Gain{Ratio: c.Against.Ratio, Interval: c.Against.Interval, P: c.Against.P, Pairs: c.Against.Pairs, Failed: c.Failed}
	if !higherIsBetter {
		g.Ratio, g.Interval = 1/g.Ratio, Interval{1 / g.Interval.High, 1 / g.Interval.Low}
	}
	return g
}
