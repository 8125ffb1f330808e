package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
)

// An IsolationRun is a run of an application, alone or beside a stressor.
type IsolationRun struct {
	App      int     `json:"app"`      // index into IsolationReport.Applications
	Case     int     `json:"case"`     // index into IsolationReport.Cases
	Stressor int     `json:"stressor"` // index into IsolationReport.Stressors; -1: no stressor
	Round    int     `json:"round"`    // runs of the same round are pairs
	Began    float64 `json:"began"`    // seconds since the start of the first run

	Time    float64 `json:"time,omitempty"` // wall time in seconds
	Failure string  `json:"failure,omitempty"`

	CPU       float64 `json:"cpu"`       // seconds of CPU time
	Periods   uint64  `json:"periods"`   // periods of the application's quota
	Throttled uint64  `json:"throttled"` // periods in which the application was throttled
	Load      *Load   `json:"load,omitempty"`
	Noise     Noise   `json:"noise"`
}

// A Load is the work that a stressor did while an application ran.
type Load struct {
	CPUs float64 `json:"cpus"` // CPUs used, on average
	Rate float64 `json:"rate"` // bytes per second, of the type in Stressor.Counts
}

const (
	applicationName = "application"
	stressorName    = "stressor"
)

// runIsolation runs an application once. A failed run is a result: only a failure of the lab or the end of the context
// is an error.
func (l *Lab) runIsolation(ctx context.Context, report *IsolationReport, w Workload, r *IsolationRun) (err error) {
	c := report.Cases[r.Case]
	var running []*instance
	var beside *stress
	defer func() { err = errline.Join(err, l.clean(running), ctx.Err()) }()
	if r.Stressor != alone {
		if beside, err = l.startStressor(ctx, &report.Stressors[r.Stressor], c.stressor(report.Split, stressorName)); err != nil {
			return err
		}
		running = append(running, beside.instance)
		if r.Failure, err = beside.waitUntilStarted(ctx); r.Failure != "" || err != nil {
			return err
		}
	}
	app, err := l.startApplication(ctx, &w, c, report.Split, beside)
	if err != nil {
		return err
	}
	if !app.isGuest {
		running = append(running, app)
	}
	return l.measure(ctx, app, beside, &w, "the case "+string(c), r)
}

// startApplication starts the application in its own group, or in the stressor's group.
func (l *Lab) startApplication(ctx context.Context, w *Workload, c Case, split Split, beside *stress) (*instance, error) {
	dir, err := l.place.scratch().emptyFolder(applicationName)
	if err != nil {
		return nil, err
	}
	guest := c == CaseTogether && beside != nil
	app, err := l.launch(w.Command, append(os.Environ(), "TMPDIR="+dir), func(p launch.Program, streams [3]*os.File) (*launch.Child, error) {
		if guest {
			return launch.StartIn(l.host, beside.child, p, streams)
		}
		return launch.Start(ctx, l.host, c.application(split, applicationName), p, streams)
	})
	if err == nil {
		app.isGuest = guest
	}
	return app, err
}

// measure waits for an application's end, and reads the usage of the application and of the stressor until then. title names the case for
// the user.
func (l *Lab) measure(ctx context.Context, app *instance, beside *stress, w *Workload, title string, r *IsolationRun) (err error) {
	stop := l.raise(app.child.Grant)
	defer func() { err = errline.Join(err, stop()) }()
	before, err := l.readCPUTimes()
	load, loadErr := beside.count()
	run := app.wait(ctx, w)
	loadAfter, loadAfterErr := beside.count()
	after, afterErr := l.readCPUTimes()
	if err := errline.Join(err, afterErr); err != nil {
		return err
	}
	r.Time, r.Failure = run.Values[WallTime.Name], run.Failure
	r.CPU, r.Periods, r.Throttled = run.CPU, run.Periods, run.Throttled
	besideCPU := 0.0
	if beside != nil {
		span := after.at.Sub(before.at).Seconds()
		used := (loadAfter.cpu - load.cpu).Seconds()
		if app.isGuest {
			used = max(0, used-run.CPU)
		}
		besideCPU = used
		r.Load = &Load{CPUs: used / span, Rate: max(0, float64(loadAfter.bytes)-float64(load.bytes)) / span}
		if over := beside.hasEnded(); r.Failure == "" && (over || loadErr != nil || loadAfterErr != nil) {
			r.Time, r.Failure = 0, "the stressor ended first"+lastLine(beside.output.last())
		}
	}
	r.Noise = l.noise(before, after, time.Duration((run.CPU+besideCPU)*float64(time.Second)),
		l.partOf(title, app.child.Grant, run.CPU, besideCPU))
	return nil
}

// raise raises an application's quota during bursts until the caller calls stop.
func (l *Lab) raise(g *host.Grant) (stop func() error) {
	if g.Burst == (spec.Burst{}) {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.host.RaiseQuotas(ctx, func(other *host.Grant) bool { return other.ID == g.ID }) }()
	return func() error { cancel(); return <-ended }
}

// A stress is a running stressor.
type stress struct {
	*instance
	stressor *Stressor
}

func (l *Lab) startStressor(ctx context.Context, s *Stressor, a host.Allocation) (*stress, error) {
	dir, err := l.place.scratch().emptyFolder(stressorName)
	if err != nil {
		return nil, err
	}
	process, err := l.launch(s.args(dir), os.Environ(), func(p launch.Program, streams [3]*os.File) (*launch.Child, error) {
		return launch.Start(ctx, l.host, a, p, streams)
	})
	if err != nil {
		return nil, err
	}
	return &stress{process, s}, nil
}

// A stressor counts as started when it has used minStartCPU and the measure of its work, if any, is above 0.
// waitUntilStarted waits for at most startTimeout.
const (
	minStartCPU  = 100 * time.Millisecond
	startTimeout = 20 * time.Second
)

// waitUntilStarted waits until a stressor has started. failure is the reason if it does not start.
func (s *stress) waitUntilStarted(ctx context.Context) (failure string, err error) {
	for deadline := time.Now().Add(startTimeout); ; {
		used, err := s.count()
		switch {
		case err == nil && used.cpu >= minStartCPU && (s.stressor.Counts == CountsNothing || used.bytes > 0):
			return "", nil
		case s.hasEnded():
			return "it ended" + lastLine(s.output.last()), nil
		case time.Now().After(deadline):
			return fmt.Sprintf("it has not started after %v%s", startTimeout, lastLine(s.output.last())), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// hasEnded reports whether the stressor's first process has ended.
func (s *stress) hasEnded() bool {
	select {
	case e := <-s.ended:
		s.ended <- e // for the next caller
		return true
	default:
		return false
	}
}

// work is the amount of work that a stressor has done so far.
type work struct {
	cpu   time.Duration
	bytes uint64
}

// count reads the work that a stressor has done. It returns the zero value if there is no stressor.
func (s *stress) count() (work, error) {
	if s == nil {
		return work{}, nil
	}
	state := s.host.InspectContainer(s.child.Grant)
	reading, err := s.host.ReadUsage(s.child.Grant)
	if err != nil {
		return work{}, err
	}
	done := work{cpu: reading.Usage.CPU}
	switch s.stressor.Counts {
	case CountsSent:
		done.bytes, err = sum([]int{s.child.Grant.Main.PID}, func(pid int) (uint64, error) { return procfs.Sent(pid, "stress0") })
	case CountsWrites:
		done.bytes, err = sum(state.Processes, procfs.Written)
	case CountsFaults:
		done.bytes, err = sum(state.Processes, func(pid int) (uint64, error) {
			stat, err := procfs.ReadStat(pid)
			return stat.Faults * uint64(os.Getpagesize()), err
		})
	}
	return done, err
}

// sum adds up a counter of processes. It skips processes that have ended or do not have the counter yet.
func sum(pids []int, count func(pid int) (uint64, error)) (all uint64, err error) {
	for _, pid := range pids {
		n, err := count(pid)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return all, err
		}
		all += n
	}
	return all, nil
}
