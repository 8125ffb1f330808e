package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// A Program is what Run starts.
type Program struct {
	Path   string   // executable file, from FindProgram
	Args   []string // with the name at first
	Env    []string // environment; nil: this process's
	SetEnv bool     // tell the number of CPUs by environment variables too (view.Env)
	// Left is told when the program has ended and its CPUs are not given back: processes
	// of it go on (host.ErrPopulated), or the release failed, which leaves it to the next operation.
	Left func(error)
}

// FindProgram finds a command as a shell does. The error is an *ExecError: 127
// if there is no such command, 126 if it can't be executed.
func FindProgram(command string) (path string, err error) {
	if strings.Contains(command, "/") {
		path, err = command, executable(command)
	} else if path, err = exec.LookPath(command); errors.Is(err, exec.ErrDot) {
		err = nil // PATH says so
	}
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return "", &ExecError{127, fmt.Errorf("command %.200q: not found; want a file or a command of $PATH", command)}
	default:
		return "", &ExecError{126, fmt.Errorf("command %.200q: not executable (%w)", command, errline.Cause(err))}
	}
}

// executable says why a file cannot be executed.
func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return unix.EISDIR
	default:
		return unix.Access(file, unix.X_OK)
	}
}

// Run allocates CPUs for a program, starts it on this process's streams, passes signals on
// to it, waits for its end and releases the CPUs. It returns the program's
// exit code, 128 + n if signal n ended it. On an error the program was not started.
func Run(h *host.Host, a host.Allocation, p Program) (exit int, err error) {
	if err := a.Check(); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)

	// With a terminal the program has to be in the process group that the terminal knows.
	helper, err := startHelper([3]*os.File{os.Stdin, os.Stdout, os.Stderr}, a.View == spec.ViewFull, !hasTerminal())
	if err != nil {
		return 0, err
	}
	defer helper.orders.Close()
	a.PID = helper.process.Pid
	var g *host.Grant
	early, err := unlessEnded(signals, func(ctx context.Context) (err error) {
		g, err = h.Allocate(ctx, a)
		return err
	})
	if early != nil || err != nil {
		helper.abort()
	}
	switch {
	case early != nil:
		if err == nil { // it was allocated all the same
			giveBack(h, signals, g.ID, p, false)
		}
		return exitOfSignal(early), nil
	case err != nil:
		return 0, err
	}
	if err := orderFor(h, g, p, helper); err != nil {
		// The helper has ended: its exit code tells, as that of any program.
		h.Logger().Debug("helper", "error", err)
	}
	stop := h.RaiseOwn(g)
	exit, err = helper.wait(signals)
	stop()
	if err != nil {
		return 0, err
	}
	giveBack(h, signals, g.ID, p, !helper.failed())
	return exit, nil
}

// orderFor has the helper become the program of a grant.
func orderFor(h *host.Host, g *host.Grant, p Program, helper *helper) error {
	env := p.Env
	if env == nil {
		env = os.Environ()
	}
	if p.SetEnv {
		env = view.Env(env, g.VisibleCPUs())
	}
	order := startOrder{Parent: os.Getpid(), Path: p.Path, Args: slicesOf(p.Args), Env: slicesOf(env)}
	if g.View == spec.ViewFull {
		order.View = h.ViewDir(g.ID)
	}
	return helper.start(order)
}

// unlessEnded does something that waits for the lock, and gives the wait up when a signal comes
// that usually ends a program: early is the last one.
func unlessEnded(signals <-chan os.Signal, do func(context.Context) error) (early os.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	for {
		select {
		case err = <-done:
			return early, err
		case sig := <-signals:
			if ends(sig) {
				early = sig
				cancel()
			}
		}
	}
}

// giveBack releases a program's CPUs. Signals that came before were for the
// program; one that comes now leaves the release to the next operation if another one has the lock. If the program
// has not started, the groups are as before the run.
func giveBack(h *host.Host, signals <-chan os.Signal, name string, p Program, started bool) {
	for len(signals) > 0 {
		<-signals
	}
	_, err := unlessEnded(signals, func(ctx context.Context) error { return h.ReleaseOwn(ctx, name, started) })
	if err != nil {
		p.Left(err)
	}
}

// wait passes signals on until the program ends, and returns its exit code.
func (h *helper) wait(signals <-chan os.Signal) (exit int, err error) {
	type end struct {
		state *os.ProcessState
		err   error
	}
	ended := make(chan end, 1)
	go func() {
		state, err := h.process.Wait()
		ended <- end{state, err}
	}()
	for {
		select {
		case sig := <-signals:
			if !fromTerminal(sig) {
				h.process.Signal(sig)
			}
		case e := <-ended:
			if e.err != nil {
				return 0, fmt.Errorf("wait for the program: %w", e.err)
			}
			if status := e.state.Sys().(syscall.WaitStatus); status.Signaled() {
				return exitOfSignal(status.Signal()), nil
			}
			return e.state.ExitCode(), nil
		}
	}
}

func exitOfSignal(sig os.Signal) int { return 128 + int(sig.(syscall.Signal)) }
