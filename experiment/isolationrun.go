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

// An IsolationRun is one run of an application, alone or beside a stressor.
type IsolationRun struct {
	App      int     `json:"app"`      // index into IsolationReport.Applications
	Case     int     `json:"case"`     // index into IsolationReport.Cases
	Stressor int     `json:"stressor"` // index into IsolationReport.Stressors; -1: none
	Round    int     `json:"round"`    // runs of one round make pairs
	Began    float64 `json:"began"`    // seconds since the first run's begin

	Time    float64 `json:"time,omitempty"` // seconds
	Failure string  `json:"failure,omitempty"`

	CPU       float64 `json:"cpu"`       // seconds of CPU time
	Periods   uint64  `json:"periods"`   // of the application's quota
	Throttled uint64  `json:"throttled"` // periods in which it ran out
	Load      *Load   `json:"load,omitempty"`
	Noise     Noise   `json:"noise"`
}

// A Load is what a stressor achieved while an application ran.
type Load struct {
	CPUs float64 `json:"cpus"` // that it used, on average
	Rate float64 `json:"rate"` // bytes a second of what it counts
}

const (
	applicationName = "application"
	stressorName    = "stressor"
)

// isolated runs an application once. A run that fails is a result; the error is one of the lab, or the context's.
func (l *Lab) isolated(ctx context.Context, report *IsolationReport, w Workload, r *IsolationRun) (err error) {
	c := report.Cases[r.Case]
	var running []*instance
	var beside *stress
	defer func() { err = errline.Join(err, l.clean(running), ctx.Err()) }()
	if r.Stressor != alone {
		if beside, err = l.startStressor(ctx, &report.Stressors[r.Stressor], c.stressor(report.Split, stressorName)); err != nil {
			return err
		}
		running = append(running, beside.instance)
		if r.Failure, err = beside.begin(ctx); r.Failure != "" || err != nil {
			return err
		}
	}
	app, err := l.startApplication(ctx, &w, c, report.Split, beside)
	if err != nil {
		return err
	}
	if !app.guest {
		running = append(running, app)
	}
	return l.measure(ctx, app, beside, &w, r)
}

// startApplication starts it in a group of its own, or in the stressor's.
func (l *Lab) startApplication(ctx context.Context, w *Workload, c Case, split Split, beside *stress) (*instance, error) {
	dir, err := l.place.scratch().fresh(applicationName)
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
		app.guest = guest
	}
	return app, err
}

// measure waits for an application's end, and counts what it and the stressor used until then.
func (l *Lab) measure(ctx context.Context, app *instance, beside *stress, w *Workload, r *IsolationRun) (err error) {
	stop := l.raise(app.child.Grant)
	defer func() { err = errline.Join(err, stop()) }()
	before, err := momentNow()
	load, loadErr := beside.count()
	run := app.wait(ctx, w)
	loadAfter, loadAfterErr := beside.count()
	after, afterErr := momentNow()
	if err := errline.Join(err, afterErr); err != nil {
		return err
	}
	r.Time, r.Failure = run.Values[WallTime.Name], run.Failure
	r.CPU, r.Periods, r.Throttled = run.CPU, run.Periods, run.Throttled
	own := run.CPU
	if beside != nil {
		span := after.at.Sub(before.at).Seconds()
		used := (loadAfter.cpu - load.cpu).Seconds()
		if app.guest {
			used = max(0, used-run.CPU)
		}
		own += used
		r.Load = &Load{CPUs: used / span, Rate: max(0, float64(loadAfter.bytes)-float64(load.bytes)) / span}
		if over := beside.over(); r.Failure == "" && (over || loadErr != nil || loadAfterErr != nil) {
			r.Time, r.Failure = 0, "the stressor ended before it"+lastLine(beside.output.last())
		}
	}
	r.Noise = after.noiseSince(before, time.Duration(own*float64(time.Second)))
	return nil
}

// raise raises an application's quota while it bursts, until stop is called.
func (l *Lab) raise(g *host.Grant) (stop func() error) {
	if g.Burst == (spec.Burst{}) {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.host.RaiseQuotas(ctx, func(one *host.Grant) bool { return one.ID == g.ID }) }()
	return func() error { cancel(); return <-ended }
}

// A stress is a stressor that runs.
type stress struct {
	*instance
	of *Stressor
}

func (l *Lab) startStressor(ctx context.Context, s *Stressor, a host.Allocation) (*stress, error) {
	dir, err := l.place.scratch().fresh(stressorName)
	if err != nil {
		return nil, err
	}
	one, err := l.launch(s.args(dir), os.Environ(), func(p launch.Program, streams [3]*os.File) (*launch.Child, error) {
		return launch.Start(ctx, l.host, a, p, streams)
	})
	if err != nil {
		return nil, err
	}
	return &stress{one, s}, nil
}

// A stressor has begun when it has used this much CPU time and achieves something. It is given patience for that.
const (
	begun    = 100 * time.Millisecond
	patience = 20 * time.Second
)

// begin waits until a stressor has begun; failure says why it does not.
func (s *stress) begin(ctx context.Context) (failure string, err error) {
	for deadline := time.Now().Add(patience); ; {
		used, err := s.count()
		switch {
		case err == nil && used.cpu >= begun && (s.of.Counts == CountsNothing || used.bytes > 0):
			return "", nil
		case s.over():
			return "it ended" + lastLine(s.output.last()), nil
		case time.Now().After(deadline):
			return fmt.Sprintf("it has not begun after %v%s", patience, lastLine(s.output.last())), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// over reports whether the stressor's first process has ended.
func (s *stress) over() bool {
	select {
	case e := <-s.ended:
		s.ended <- e // for who asks next
		return true
	default:
		return false
	}
}

// A counted is what a stressor has done so far.
type counted struct {
	cpu   time.Duration
	bytes uint64
}

// count reads what a stressor has done; no stressor has done nothing.
func (s *stress) count() (counted, error) {
	if s == nil {
		return counted{}, nil
	}
	look := s.host.InspectContainer(s.child.Grant)
	reading, err := s.host.ReadUsage(s.child.Grant)
	if err != nil {
		return counted{}, err
	}
	done := counted{cpu: reading.Usage.CPU}
	switch s.of.Counts {
	case CountsSent:
		done.bytes, err = sum([]int{s.child.Grant.Main.PID}, func(pid int) (uint64, error) { return procfs.Sent(pid, "stress0") })
	case CountsWrites:
		done.bytes, err = sum(look.Processes, procfs.Written)
	case CountsFaults:
		done.bytes, err = sum(look.Processes, func(pid int) (uint64, error) {
			stat, err := procfs.ReadStat(pid)
			return stat.Faults * uint64(os.Getpagesize()), err
		})
	}
	return done, err
}

// sum adds up what processes have done. One that has ended meanwhile, or has nothing to do it with yet, is left out.
func sum(pids []int, of func(pid int) (uint64, error)) (all uint64, err error) {
	for _, pid := range pids {
		n, err := of(pid)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return all, err
		}
		all += n
	}
	return all, nil
}
