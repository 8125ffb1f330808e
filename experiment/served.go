package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/procfs"
)

// checkClient returns an error if a setup leaves no CPU for the client. The error names the first such setup.
func (l *Lab) checkClient(w *Workload, setups []Setup) error {
	all := hybrid.Milli(1000 * l.usable.Count())
	for i := range setups {
		if s := &setups[i]; len(w.Server) > 0 && s.Limit >= all {
			return fmt.Errorf("%w for %v at a limit of %v and its client: the machine has %d", ErrTooSmall, s, s.Limit, l.usable.Count())
		}
	}
	return nil
}

// runServed runs a server under a setup. Once the server listens, runServed runs the client without a limit, in the same way for all
// setups. In the result, the values are those of the client. The CPU time and the throttling are those of the server while the
// client runs.
func (l *Lab) runServed(ctx context.Context, w *Workload, s *Setup) ([]Run, error) {
	server, err := l.start(ctx, w.server(), s, "server")
	if err != nil {
		return nil, err
	}
	if failure := server.waitUntilListening(ctx, w.Timeout); failure != "" {
		return []Run{{Failure: failure}}, errline.Join(l.clean([]*instance{server}), ctx.Err())
	}
	idle := server.readUsage()
	client, err := l.start(ctx, w, &Setup{Kind: None}, "client")
	if err != nil {
		return nil, errline.Join(err, l.clean([]*instance{server}))
	}
	before, beforeErr := l.readCPUTimes()
	run := client.wait(ctx, w)
	busy := server.readUsage()
	after, afterErr := l.readCPUTimes()
	serverCPU := busy.CPU - idle.CPU
	run.Noise = l.noise(before, after, time.Duration((run.CPU+serverCPU)*float64(time.Second)),
		l.partOf(s.title(), server.child.Grant, serverCPU, run.CPU))
	run.CPU, run.Periods, run.Throttled = busy.CPU-idle.CPU, busy.Periods-idle.Periods, busy.Throttled-idle.Throttled
	if failure := server.earlyEnd(); failure != "" {
		run.Values, run.Failure = nil, failure
	}
	return []Run{run}, errline.Join(beforeErr, afterErr, l.clean([]*instance{client, server}), ctx.Err())
}

// waitUntilListening waits until a process of a server listens. failure is the reason if no process does.
func (i *instance) waitUntilListening(ctx context.Context, timeout time.Duration) (failure string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		if failure := i.earlyEnd(); failure != "" {
			return failure
		}
		processes, err := i.child.Processes()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err.Error()
		}
		for _, pid := range processes {
			if listens, err := procfs.Listens(pid); err == nil && listens { // on an error the process has just ended
				return ""
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Sprintf("the server does not listen after %v", timeout)
			}
			return "interrupted"
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// earlyEnd describes why a server ended too early. It returns "" while the server runs.
func (i *instance) earlyEnd() (failure string) {
	select {
	case e := <-i.ended:
		i.ended <- e // for the next caller
		if e.err != nil {
			return e.err.Error()
		}
		how := cmp.Or(exitFailure(e.state, i.output.last()), "exit code 0; run it in the foreground")
		return "the server ended before its client: " + how
	default:
		return ""
	}
}
