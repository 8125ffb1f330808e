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

// An Isolation finds out how much applications are slowed down by others beside them, and how well cases keep that from them:
// each application runs in each case alone, and beside each stressor. It follows Büttner et al., "Performance Isolation of
// Co-located Workload in a Container-based Vehicle Software Architecture" (AMBIENT 2019). Other than there, what a stressor
// costs is told from what the allocation costs: the measure is the application in the same case alone.
type Isolation struct {
	Applications []NamedWorkload
	Stressors    []Stressor
	Cases        []Case
	Limit        hybrid.Milli // the application's part of the CPUs, in milli-CPU; 0: half of them
	Rounds       int          // in which everything is run once
	Seed         uint64       // of the order
	Tmp          string       // folder for what is written

	// Progress, if not nil, is told before each run.
	Progress func(IsolationStage)
}

// An IsolationStage is how far an isolation is.
type IsolationStage struct {
	Run, Runs int    // the one that begins, from 1, and all
	Doing     string // it, in words
	Report    *IsolationReport
}

// alone is the stressor of a run without one.
const alone = -1

// scratchRoom is the free room that an isolation wants: twice what the largest stressor writes.
const scratchRoom = 2 * hddWorkers * hddBytes

// Check says what is wrong with an isolation, on any machine.
func (i *Isolation) Check() error {
	switch {
	case len(i.Applications) == 0:
		return fmt.Errorf("%w: no application", ErrBadWorkload)
	case len(i.Cases) == 0:
		return fmt.Errorf("%w: none", ErrBadCase)
	case len(i.Stressors) == 0:
		return fmt.Errorf("%w: none", ErrBadStressor)
	case i.Rounds < 2 || i.Rounds > MaxRuns || i.runs() > MaxRuns:
		return fmt.Errorf("%w: %d rounds: want 2 or more, and %d runs at most in all", ErrBadWorkload, i.Rounds, MaxRuns)
	case i.Limit != 0 && (i.Limit < hybrid.MinLimit || i.Limit > hybrid.MaxLimit):
		return fmt.Errorf("%w: limit %v: want %v to %v", ErrBadSetup, i.Limit, hybrid.MinLimit, hybrid.MaxLimit)
	}
	if twice, found := firstTwice(i.Cases); found {
		return fmt.Errorf("%w %s is there twice", ErrBadCase, twice)
	}
	var names []string
	for _, s := range i.Stressors {
		if err := s.Check(); err != nil {
			return err
		}
		names = append(names, s.Name)
	}
	if twice, found := firstTwice(names); found {
		return fmt.Errorf("%w: %s is there twice", ErrBadStressor, twice)
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
	if twice, found := firstTwice(names); found {
		return fmt.Errorf("%w: application %s is there twice", ErrBadWorkload, twice)
	}
	return nil
}

func firstTwice[T comparable](values []T) (twice T, found bool) {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return v, true
		}
	}
	return twice, false
}

// runs is how many there are in all rounds.
func (i *Isolation) runs() int { return i.Rounds * len(i.Applications) * i.cells() }

// cells is how many runs an application has in a round.
func (i *Isolation) cells() int { return len(i.Cases) * (1 + len(i.Stressors)) }

// Run runs an isolation in a lab. Where the context ends before it does, the error is the context's, and
// the report has the runs so far.
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
	if err := l.host.SetOptions(host.NodeOptions{Reserved: l.taken}); err != nil {
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
	began, n := time.Now(), 0
	for round, order := range Order(len(i.Applications), i.Rounds, i.Seed) {
		for _, app := range order {
			for _, cell := range Order(i.cells(), 1, i.Seed+uint64(n))[0] {
				n++
				r := IsolationRun{App: app, Case: cell % len(i.Cases), Stressor: cell/len(i.Cases) - 1, Round: round, Began: time.Since(began).Seconds()}
				if i.Progress != nil {
					i.Progress(IsolationStage{n, i.runs(), report.doing(&r), report})
				}
				if err := l.isolated(ctx, report, i.Applications[app].Workload, &r); err != nil {
					report.Stopped = true
					return report, err
				}
				report.Runs = append(report.Runs, r)
			}
		}
	}
	return report, nil
}

// tryOut runs each application, case and stressor once, which warms up, too: what cannot work shows before the long work.
func (i *Isolation) tryOut(ctx context.Context, l *Lab, report *IsolationReport) error {
	for n := range max(len(i.Applications), len(i.Cases)) {
		r := IsolationRun{App: n % len(i.Applications), Case: n % len(i.Cases), Stressor: alone}
		if err := l.isolated(ctx, report, i.Applications[r.App].Workload, &r); err != nil {
			return err
		}
		if r.Failure != "" {
			return fmt.Errorf("%w: application %s fails alone, in the case %s: %s", ErrBadWorkload, i.Applications[r.App].Name, i.Cases[r.Case], r.Failure)
		}
	}
	for n := range i.Stressors {
		r := IsolationRun{Case: n % len(i.Cases), Stressor: n}
		idle := Workload{Command: []string{"true"}, Timeout: time.Minute}
		if err := l.isolated(ctx, report, idle, &r); err != nil {
			return err
		}
		if r.Failure != "" {
			return fmt.Errorf("%w %s does not run here, in the case %s: %s", ErrBadStressor, i.Stressors[n].Name, i.Cases[r.Case], r.Failure)
		}
	}
	return nil
}

// newReport describes the isolation.
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
