package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/candor-project/candor/host/launch"
)

// An Experiment runs a workload under several setups, the same number of times each.
type Experiment struct {
	Workload Workload
	Setups   []Setup
	Rounds   int    // measured rounds; each round runs each setup once
	WarmUps  int    // rounds before the measured rounds; no result uses them
	Seed     uint64 // of the random order

	// Progress, if not nil, is called before each run.
	Progress func(Stage)
}

// A Stage is the progress of an experiment.
type Stage struct {
	Run, Runs int // number of the next run, counted from 1, and total number of runs
	Setup     Setup
	Report    *Report // runs so far; read-only
}

// MaxRuns is the maximum number of runs of an experiment.
const MaxRuns = 100_000

// Check reports the first invalid field of an experiment. It does not depend on the machine.
func (e *Experiment) Check() error {
	if err := e.Workload.Check(); err != nil {
		return err
	}
	switch {
	case len(e.Setups) == 0:
		return fmt.Errorf("%w: none; use one or more of %s", ErrBadSetup, kindNames())
	case e.Rounds < 2 || e.Rounds > MaxRuns || e.Rounds*len(e.Setups) > MaxRuns:
		return fmt.Errorf("%w: %d runs of each setup: must be 2 or more, and at most %d in total", ErrBadWorkload, e.Rounds, MaxRuns)
	case e.WarmUps < 0 || e.WarmUps > e.Rounds:
		return fmt.Errorf("%w: %d warm-up runs: must be 0 to %d", ErrBadWorkload, e.WarmUps, e.Rounds)
	}
	for i := range e.Setups {
		for j := range i {
			if e.Setups[i] == e.Setups[j] {
				return fmt.Errorf("%w: duplicate %v", ErrBadSetup, e.Setups[i])
			}
		}
	}
	return e.checkPrograms()
}

// checkPrograms returns an error if a program of the workload does not exist, or if a setup runs several copies of a
// server.
func (e *Experiment) checkPrograms() error {
	w := &e.Workload
	if len(w.Server) > 0 {
		for i := range e.Setups {
			if s := &e.Setups[i]; s.instances() > 1 {
				return fmt.Errorf("%w: %v of a server: must be a single copy, because copies cannot share a port", ErrBadSetup, s)
			}
		}
		if _, err := launch.FindProgram(w.server().args(1)[0]); err != nil {
			return err
		}
	}
	if w.Image != nil { // the image has the program
		return nil
	}
	_, err := launch.FindProgram(w.args(1)[0])
	return err
}

// Run runs an experiment in a lab. If the context ends before the experiment, Run returns the context's error and a
// report with the runs so far.
func (e *Experiment) Run(ctx context.Context, l *Lab) (*Report, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	if err := l.Check(e.Setups); err != nil {
		return nil, err
	}
	if err := l.checkClient(&e.Workload, e.Setups); err != nil {
		return nil, err
	}
	report, err := e.newReport(l)
	if err != nil {
		return nil, err
	}
	l.startWatch()
	defer func() { report.Interference = l.interference() }()
	began, n := time.Now(), 0
	for i, order := range Order(len(e.Setups), e.WarmUps+e.Rounds, e.Seed) {
		for _, setup := range order {
			n++
			if e.Progress != nil {
				e.Progress(Stage{n, (e.WarmUps + e.Rounds) * len(e.Setups), e.Setups[setup], report})
			}
			since := time.Since(began).Seconds()
			runs, err := l.run(ctx, &e.Workload, &e.Setups[setup])
			if err != nil {
				report.Stopped, report.Partial = true, true
				return report, err
			}
			for _, r := range runs {
				r.Setup, r.Round, r.Began = setup, i-e.WarmUps, since
				report.Runs = append(report.Runs, r)
			}
		}
	}
	return report, nil
}

// newReport returns a report that describes the experiment and has no runs.
func (e *Experiment) newReport(l *Lab) (*Report, error) {
	machine, err := describeMachine(l)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Version: reportVersion, Began: time.Now().UTC().Truncate(time.Second), Machine: machine,
		Name: e.Workload.Name, Image: e.Workload.Image, Command: e.Workload.Command, Server: e.Workload.Server, Timeout: e.Workload.Timeout.Seconds(),
		Setups: e.Setups, Rounds: e.Rounds, Seed: e.Seed,
		Metrics: []ReportMetric{{Name: WallTime.Name, Unit: "s"}},
	}
	for _, m := range e.Workload.Metrics {
		r.Metrics = append(r.Metrics, ReportMetric{Name: m.Name, Pattern: m.Pattern, HigherIsBetter: m.HigherIsBetter})
	}
	if r.Directory, err = os.Getwd(); err != nil {
		return nil, err
	}
	return r, nil
}

// Order returns a random order of the setups for each round. Each round has each setup once, so that the runs of a
// round are close in time and can be compared in pairs. The same seed gives the same order.
func Order(setups, rounds int, seed uint64) [][]int {
	random := rand.New(rand.NewPCG(seed, uint64(setups)))
	order := make([][]int, rounds)
	for round := range order {
		order[round] = random.Perm(setups)
	}
	return order
}
