package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/internal/errline"
)

// A Run is one run of one instance of a workload.
type Run struct {
	Setup    int     `json:"setup"` // index into Report.Setups
	Round    int     `json:"round"` // runs of one round make pairs; below 0: to warm up
	Instance int     `json:"instance,omitempty"`
	Began    float64 `json:"began"` // seconds since the experiment's begin

	Values  map[string]float64 `json:"values,omitempty"`  // by metric; "time" in seconds
	Failure string             `json:"failure,omitempty"` // why there are none

	CPU       float64 `json:"cpu"`       // seconds of CPU time
	Periods   uint64  `json:"periods"`   // of the quota
	Throttled uint64  `json:"throttled"` // periods in which it ran out
	Noise     Noise   `json:"noise"`
}

// run runs all instances of a set-up once. A run that fails is a result; the error is one of the
// lab, or the context's.
func (l *Lab) run(ctx context.Context, w *Workload, s *Setup) ([]Run, error) {
	if err := l.reserve(s); err != nil {
		return nil, err
	}
	if len(w.Server) > 0 {
		return l.runServed(ctx, w, s)
	}
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	instances, err := l.startAll(ctx, w, s)
	if err != nil {
		cancel() // those that run are not waited for
	}
	before, beforeErr := momentNow() // after what was done to start them
	runs, errs := make([]Run, len(instances)), make([]error, len(instances))
	var ends sync.WaitGroup
	for i, one := range instances {
		ends.Go(func() {
			if runs[i], errs[i] = one.finish(all, w); errs[i] != nil {
				cancel() // nothing will come of it: the others are not waited for
			}
		})
	}
	ends.Wait()
	after, noiseErr := momentNow()
	own := time.Duration(0)
	for i := range runs {
		runs[i].Instance = i
		own += time.Duration(runs[i].CPU * float64(time.Second))
	}
	for i := range runs {
		runs[i].Noise = after.noiseSince(before, own)
	}
	for _, one := range instances {
		errs = append(errs, one.clean())
	}
	return runs, errline.Join(append(errs, err, beforeErr, noiseErr, ctx.Err())...)
}

// A running is one of a workload's instances: a program, or a container.
type running interface {
	// finish waits for its end, kills it after the timeout, and reads what it gave. That it failed is a result.
	finish(ctx context.Context, w *Workload) (Run, error)
	// clean ends what it has left.
	clean() error
}

// startAll starts all instances of a set-up. On an error they are those that were started.
func (l *Lab) startAll(ctx context.Context, w *Workload, s *Setup) (all []running, err error) {
	for i := range s.instances() {
		name := fmt.Sprintf("run-%d", i)
		if w.Image != nil {
			one, err := l.create(w, s)
			if err != nil {
				return all, err
			}
			all = append(all, one)
			continue
		}
		one, err := l.start(ctx, w, s, name)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// clean ends what runs of instances have left.
func (l *Lab) clean(instances []*instance) error {
	var errs []error
	for _, one := range instances {
		if one != nil {
			errs = append(errs, one.clean())
		}
	}
	return errline.Join(errs...)
}

func (i *instance) clean() error {
	return i.host.Release(context.Background(), i.child.Grant.ID, true)
}

// An instance is a program that runs.
type instance struct {
	host   *host.Host
	child  *launch.Child
	began  time.Time
	output *tail
	ended  chan ending
	guest  bool // in another one's group: what that has used is not its own
}

// An ending is how a program ended, and when.
type ending struct {
	state *os.ProcessState
	err   error
	at    time.Time
}

// start starts an instance.
func (l *Lab) start(ctx context.Context, w *Workload, s *Setup, name string) (*instance, error) {
	return l.launch(w.args(s.threads(l.usable.Count())), w.environment(s), func(p launch.Program, streams [3]*os.File) (*launch.Child, error) {
		return launch.Start(ctx, l.host, s.allocation(name), p, streams)
	})
}

// launch starts a program whose output is kept; start says in which group.
func (l *Lab) launch(args, env []string, start func(launch.Program, [3]*os.File) (*launch.Child, error)) (*instance, error) {
	path, err := launch.FindProgram(args[0])
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	output, write, err := newTail()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	child, err := start(launch.Program{Path: path, Args: args, Env: env}, [3]*os.File{null, write, write})
	if err != nil {
		return nil, err
	}
	i := &instance{host: l.host, child: child, began: time.Now(), output: output, ended: make(chan ending, 1)}
	go func() {
		state, err := child.Wait()
		i.ended <- ending{state, err, time.Now()}
	}()
	return i, nil
}

func (i *instance) finish(ctx context.Context, w *Workload) (Run, error) { return i.wait(ctx, w), nil }

// wait waits for the end of the program, kills it after the timeout, and reads what it gave.
func (i *instance) wait(ctx context.Context, w *Workload) Run {
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	var e ending
	killed := false
	select {
	case e = <-i.ended:
	case <-ctx.Done():
		killed = true
		if err := i.child.Kill(); err != nil {
			return Run{Failure: fmt.Sprintf("not ended after %v, and not killed: %v", w.Timeout, err)}
		}
		e = <-i.ended
	}
	r := i.read()
	if i.guest {
		r = i.readGuest(e.state)
	}
	switch {
	case killed && errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.Failure = fmt.Sprintf("not ended after %v", w.Timeout)
	case killed:
		r.Failure = "interrupted"
	case e.err != nil:
		r.Failure = e.err.Error()
	default:
		output := i.output.last()
		r.judge(failed(e.state, output), e.at.Sub(i.began), w, output)
	}
	return r
}

// read reads what the program's group has used.
func (i *instance) read() (r Run) {
	reading, err := i.host.ReadUsage(i.child.Grant)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has ended: what it used is known all the same
		return Run{}
	}
	u := reading.Usage
	return Run{CPU: u.CPU.Seconds(), Periods: u.Periods, Throttled: u.Throttled}
}

// readGuest reads what the program's first process has used, and those that it waited for.
func (i *instance) readGuest(end *os.ProcessState) (r Run) {
	if end != nil {
		r.CPU = (end.UserTime() + end.SystemTime()).Seconds()
	}
	return r
}

// judge says what a run that ended gave.
func (r *Run) judge(failure string, took time.Duration, w *Workload, output []byte) {
	if r.Failure = failure; failure != "" {
		return
	}
	r.Values = map[string]float64{WallTime.Name: took.Seconds()}
	for i := range w.Metrics {
		value, err := w.Metrics[i].In(output)
		if err != nil {
			r.Values, r.Failure = nil, err.Error()
			return
		}
		r.Values[w.Metrics[i].Name] = value
	}
}

// failed says how a program failed; "" where it did not.
func failed(state *os.ProcessState, output []byte) string {
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return fmt.Sprintf("ended by signal %v", status.Signal())
	}
	if code := state.ExitCode(); code != 0 {
		return fmt.Sprintf("exit code %d%s", code, lastLine(output))
	}
	return ""
}
