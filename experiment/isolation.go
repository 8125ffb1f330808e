package experiment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/hybrid"
)

// An Isolation measures how much a stressor slows down the applications beside it, and how well each Case prevents this
// slowdown. Each application runs in each case alone and beside each stressor. The method follows Büttner et al.,
// "Performance Isolation of Co-located Workload in a Container-based Vehicle Software Architecture" (AMBIENT 2019).
// Unlike the study, Isolation separates the cost of the stressor from the cost of the allocation: the baseline of a run
// beside a stressor is the application alone in the same case.
type Isolation struct {
	Applications []NamedWorkload
	Stressors    []Stressor
	Cases        []Case
	Limit        hybrid.Milli // the application's share of the CPUs, in milli-CPU; 0: half of the CPUs
	Rounds       int          // a round runs every combination once
	Seed         uint64       // of the random order
	Tmp          string       // parent of the folder for the programs' files

	// Progress, if not nil, is called before each run.
	Progress func(IsolationStage)
}

// An IsolationStage is the progress of an isolation.
type IsolationStage struct {
	Run, Runs int    // number of the next run, counted from 1, and total number of runs
	Doing     string // description of the run
	Report    *IsolationReport
}

// alone is the stressor index of a run without a stressor.
const alone = -1

// scratchRoom is the free disk space that an isolation requires, in bytes: twice the amount that the largest stressor writes.
const scratchRoom = 2 * hddWorkers * hddBytes

// Check reports the first invalid field of an isolation. It does not depend on the machine.
func (i *Isolation) Check() error {
	switch {
	case len(i.Applications) == 0:
		return fmt.Errorf("%w: no application", ErrBadWorkload)
	case len(i.Cases) == 0:
		return fmt.Errorf("%w: none", ErrBadCase)
	case len(i.Stressors) == 0:
		return fmt.Errorf("%w: none", ErrBadStressor)
	case i.Rounds < 2 || i.Rounds > MaxRuns || i.runs() > MaxRuns:
		return fmt.Errorf("%w: %d rounds: must be 2 or more, with at most %d runs in total", ErrBadWorkload, i.Rounds, MaxRuns)
	case i.Limit != 0 && (i.Limit < hybrid.MinLimit || i.Limit > hybrid.MaxLimit):
		return fmt.Errorf("%w: limit %v: must be %v to %v", ErrBadSetup, i.Limit, hybrid.MinLimit, hybrid.MaxLimit)
	}
	if twice, found := firstDuplicate(i.Cases); found {
		return fmt.Errorf("%w %s: duplicate", ErrBadCase, twice)
	}
	var names []string
	for _, s := range i.Stressors {
		if err := s.Check(); err != nil {
			return err
		}
		names = append(names, s.Name)
	}
	if twice, found := firstDuplicate(names); found {
		return fmt.Errorf("%w %s: duplicate", ErrBadStressor, twice)
	}
	names = nil
	for _, a := range i.Applications {
		if err := a.Check(); err != nil {
			return err
		}
		if _, err := launch.FindProgram(a.Command[0]); err != nil {
			return fmt.Errorf("application %s: %w", a.Name, err)
		}
		names = append(names, a.Name)
	}
	if twice, found := firstDuplicate(names); found {
		return fmt.Errorf("%w: application %s: duplicate", ErrBadWorkload, twice)
	}
	return nil
}

func firstDuplicate[T comparable](values []T) (twice T, found bool) {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return v, true
		}
	}
	return twice, false
}

// runs returns the number of runs in all rounds.
func (i *Isolation) runs() int { return i.Rounds * len(i.Applications) * i.cells() }

// cells returns the number of runs of an application in a round.
func (i *Isolation) cells() int { return len(i.Cases) * (1 + len(i.Stressors)) }

// Run runs an isolation in a lab. If the context ends before the isolation, Run returns the context's error and a
// report with the runs so far.
func (i *Isolation) Run(ctx context.Context, l *Lab) (*IsolationReport, error) {
	if err := i.Check(); err != nil {
		return nil, err
	}
	split := splitOf(l.usable.Count(), i.Limit)
	for _, c := range i.Cases {
		if err := split.check(c); err != nil {
			return nil, err
		}
	}
	if err := l.host.SetOptions(host.NodeOptions{Reserved: l.reserved}); err != nil {
		return nil, err
	}
	if err := l.openScratch(i.Tmp, scratchRoom); err != nil {
		return nil, err
	}
	report, err := i.newReport(l, split)
	if err != nil {
		return nil, err
	}
	if err := i.tryOut(ctx, l, report); err != nil {
		return nil, err
	}
	l.startWatch()
	defer func() { report.Interference = l.interference() }()
	began, n := time.Now(), 0
	for round, order := range Order(len(i.Applications), i.Rounds, i.Seed) {
		for _, app := range order {
			for _, cell := range Order(i.cells(), 1, i.Seed+uint64(n))[0] {
				n++
				r := IsolationRun{App: app, Case: cell % len(i.Cases), Stressor: cell/len(i.Cases) - 1, Round: round, Began: time.Since(began).Seconds()}
				if err := i.runCell(ctx, l, report, n, &r); err != nil {
					report.Stopped, report.Partial = true, true
					return report, err
				}
			}
		}
	}
	return report, nil
}

// runCell runs an application in a case once, and adds the result to the report. n is the number of the run, from 1.
func (i *Isolation) runCell(ctx context.Context, l *Lab, report *IsolationReport, n int, r *IsolationRun) error {
	if i.Progress != nil {
		i.Progress(IsolationStage{n, i.runs(), report.doing(r), report})
	}
	if err := l.runIsolation(ctx, report, i.Applications[r.App].Workload, r); err != nil {
		return err
	}
	report.Runs = append(report.Runs, *r)
	return nil
}

// tryOut runs each application, each case and each stressor at least once, but not every combination. It warms up the
// machine, and finds broken programs before the long measurement.
func (i *Isolation) tryOut(ctx context.Context, l *Lab, report *IsolationReport) error {
	for n := range max(len(i.Applications), len(i.Cases)) {
		r := IsolationRun{App: n % len(i.Applications), Case: n % len(i.Cases), Stressor: alone}
		if err := l.runIsolation(ctx, report, i.Applications[r.App].Workload, &r); err != nil {
			return err
		}
		if r.Failure != "" {
			return fmt.Errorf("%w: application %s fails alone, in the case %s: %s", ErrBadWorkload, i.Applications[r.App].Name, i.Cases[r.Case], r.Failure)
		}
	}
	for n := range i.Stressors {
		r := IsolationRun{Case: n % len(i.Cases), Stressor: n}
		idle := Workload{Command: []string{"true"}, Timeout: time.Minute}
		if err := l.runIsolation(ctx, report, idle, &r); err != nil {
			return err
		}
		if r.Failure != "" {
			return fmt.Errorf("%w %s does not run here, in the case %s: %s", ErrBadStressor, i.Stressors[n].Name, i.Cases[r.Case], r.Failure)
		}
	}
	return nil
}

// newReport returns a report that describes the isolation and has no runs.
func (i *Isolation) newReport(l *Lab, split Split) (*IsolationReport, error) {
	machine, err := describeMachine(l)
	if err != nil {
		return nil, err
	}
	tmp, err := filepath.Abs(i.Tmp)
	if err != nil {
		return nil, err
	}
	kind, err := fileSystem(tmp)
	if err != nil {
		return nil, err
	}
	r := &IsolationReport{
		Kind: isolationKind, Version: isolationVersion, Began: time.Now().UTC().Truncate(time.Second), Machine: machine, Tmp: tmp, FileSystem: kind,
		Split: split, Stressors: i.Stressors, Cases: i.Cases, Rounds: i.Rounds, Seed: i.Seed,
	}
	for _, a := range i.Applications {
		r.Applications = append(r.Applications, Application{a.Name, a.Command})
	}
	if r.Directory, err = os.Getwd(); err != nil {
		return nil, err
	}
	return r, nil
}
