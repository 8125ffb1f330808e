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

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/internal/errline"
)

// A Run is a run of an instance of a workload.
type Run struct {
	Setup    int     `json:"setup"` // index into Report.Setups
	Round    int     `json:"round"` // runs of the same round are pairs; negative: a warm-up
	Instance int     `json:"instance,omitempty"`
	Began    float64 `json:"began"` // seconds since the start of the experiment

	Values  map[string]float64 `json:"values,omitempty"`  // by metric; "time" in seconds
	Failure string             `json:"failure,omitempty"` // reason of the failure; a failed run has no values

	CPU       float64 `json:"cpu"`       // seconds of CPU time
	Periods   uint64  `json:"periods"`   // periods of the quota
	Throttled uint64  `json:"throttled"` // periods in which the group was throttled
	Noise     Noise   `json:"noise"`
}

// run runs all instances of a setup once. A failed run is a result: only a failure of the lab or the end of the context
// is an error.
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
		cancel() // stop the running instances
	}
	before, beforeErr := l.readCPUTimes() // after the work of starting the instances
	runs, errs := make([]Run, len(instances)), make([]error, len(instances))
	var ends sync.WaitGroup
	for i, instance := range instances {
		ends.Go(func() {
			if runs[i], errs[i] = instance.finish(all, w); errs[i] != nil {
				cancel() // the result is lost: stop the other instances
			}
		})
	}
	ends.Wait()
	after, noiseErr := l.readCPUTimes()
	usedCPU := time.Duration(0)
	for i := range runs {
		runs[i].Instance = i
		usedCPU += time.Duration(runs[i].CPU * float64(time.Second))
	}
	noise := l.noise(before, after, usedCPU, measuredPart{s.title(), l.cpusOf(instances), usedCPU})
	for i := range runs {
		runs[i].Noise = noise
	}
	for _, instance := range instances {
		errs = append(errs, instance.clean())
	}
	return runs, errline.Join(append(errs, err, beforeErr, noiseErr, ctx.Err())...)
}

// A running is an instance of a workload: a program or a container.
type running interface {
	// finish waits for the end of the instance, kills it after the timeout, and reads its results. A failure of the
	// instance is a result, not an error.
	finish(ctx context.Context, w *Workload) (Run, error)
	// cpus returns the CPUs on which the instance may run; empty: unknown. Call it after finish.
	cpus() cpuset.Set
	// clean kills the processes that the instance left behind.
	clean() error
}

// cpusOf returns the CPUs on which instances may run. If they are unknown, it returns all usable CPUs.
func (l *Lab) cpusOf(instances []running) (all cpuset.Set) {
	for _, instance := range instances {
		cpus := instance.cpus()
		if cpus.IsEmpty() {
			return l.usable
		}
		all.AddAll(&cpus)
	}
	if all.IsEmpty() {
		return l.usable
	}
	return all
}

// startAll starts all instances of a setup. On an error it returns the instances that were started.
func (l *Lab) startAll(ctx context.Context, w *Workload, s *Setup) (all []running, err error) {
	for i := range s.instances() {
		name := fmt.Sprintf("run-%d", i)
		if w.Image != nil {
			instance, err := l.create(w, s)
			if err != nil {
				return all, err
			}
			all = append(all, instance)
			continue
		}
		instance, err := l.start(ctx, w, s, name)
		if err != nil {
			return all, err
		}
		all = append(all, instance)
	}
	return all, nil
}

// clean kills the processes that instances left behind.
func (l *Lab) clean(instances []*instance) error {
	var errs []error
	for _, instance := range instances {
		if instance != nil {
			errs = append(errs, instance.clean())
		}
	}
	return errline.Join(errs...)
}

func (i *instance) cpus() cpuset.Set { return i.child.Grant.CPUs }

func (i *instance) clean() error {
	return i.host.Release(context.Background(), i.child.Grant.ID, true)
}

// An instance is a running program.
type instance struct {
	host    *host.Host
	child   *launch.Child
	began   time.Time
	output  *tail
	ended   chan ending
	isGuest bool // the program runs in the group of another instance, so the group's usage is not the program's
}

// An ending is the exit state of a program, with its time.
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

// launch starts a program with the function start, which chooses the group, and retains the end of the program's
// output.
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

// wait waits for the end of the program, kills it after the timeout, and reads its results.
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
	r := i.readUsage()
	if i.isGuest {
		r = i.readGuestUsage(e.state)
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
		r.judge(exitFailure(e.state, output), e.at.Sub(i.began), w, output)
	}
	return r
}

// readUsage reads the usage of the program's group.
func (i *instance) readUsage() (r Run) {
	reading, err := i.host.ReadUsage(i.child.Grant)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // on ErrNotExist the processes have ended, but the usage was read before
		return Run{}
	}
	u := reading.Usage
	return Run{CPU: u.CPU.Seconds(), Periods: u.Periods, Throttled: u.Throttled}
}

// readGuestUsage reads the usage of the program's first process and of the children that it waited for.
func (i *instance) readGuestUsage(end *os.ProcessState) (r Run) {
	if end != nil {
		r.CPU = (end.UserTime() + end.SystemTime()).Seconds()
	}
	return r
}

// judge sets the values or the failure of a run that ended.
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

// exitFailure describes why a program failed. It returns "" if the program succeeded.
func exitFailure(state *os.ProcessState, output []byte) string {
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return fmt.Sprintf("ended by signal %v", status.Signal())
	}
	if code := state.ExitCode(); code != 0 {
		return fmt.Sprintf("exit code %d%s", code, lastLine(output))
	}
	return ""
}
