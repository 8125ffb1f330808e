// Package launch starts programs with CPUs of their own, for candor run and for experiments. [Run] starts a program on
// the caller's streams and waits for it; [Start] starts it and returns a [Child].
//
// Both start a helper process first, a copy of candor that waits on a socket. The host moves the helper into the
// cgroup of the new container, and an order makes the helper mount the view and execute the program ([RunHelper]). The
// program therefore never runs outside its cgroup, and a killed candor process leaves no running program.
//
// Grants, cgroups and views belong to package host.
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
	"github.com/candor-project/candor/view"
)

// A Program describes the program that Run or Start executes.
type Program struct {
	Path   string   // executable file, from FindProgram
	Args   []string // starting with the name
	Env    []string // environment; nil: the environment of this process
	SetEnv bool     // set environment variables to the number of CPUs (view.Env) and to the memory (view.MemoryEnv)
	Named  []string // variables that view.MemoryEnv sets only by name
	// OnLeftover is called if the program has ended and its CPUs are not released. Either some of its processes still
	// run (host.ErrPopulated), or the release failed and the next operation retries it.
	OnLeftover func(error)
}

// FindProgram finds a command as a shell does. The error is an *ExecError with code 127 if there is no such command,
// and 126 if the command cannot be executed.
func FindProgram(command string) (path string, err error) {
	if strings.Contains(command, "/") {
		path, err = command, checkExecutable(command)
	} else if path, err = exec.LookPath(command); errors.Is(err, exec.ErrDot) {
		err = nil // PATH contains "."
	}
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return "", &ExecError{127, fmt.Errorf("command %.200q: not found; use a file or a command of $PATH", command)}
	default:
		return "", &ExecError{126, fmt.Errorf("command %.200q: cannot execute it (%w)", command, errline.Cause(err))}
	}
}

// checkExecutable returns the reason why a file cannot be executed, or nil.
func checkExecutable(file string) error {
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

// Run allocates CPUs for a program and starts it on this process's streams. It forwards signals, waits for the
// program's end and releases the CPUs. It returns the program's exit code, or 128 + n if signal n ended it. On an
// error the program was not started.
func Run(h *host.Host, a host.Allocation, p Program) (exit int, err error) {
	if err := a.Check(); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, forwardedSignals()...)
	defer signal.Stop(signals)

	// A program with a terminal must stay in the terminal's foreground process group.
	helper, err := startHelper([3]*os.File{os.Stdin, os.Stdout, os.Stderr}, a.View.HasFiles(), !hasTerminal())
	if err != nil {
		return 0, err
	}
	defer helper.orders.Close()
	a.PID = helper.process.Pid
	var g *host.Grant
	interrupt, err := untilInterrupt(signals, func(ctx context.Context) (err error) {
		g, err = h.Allocate(ctx, a)
		return err
	})
	if interrupt != nil || err != nil {
		helper.abort()
	}
	switch {
	case interrupt != nil:
		if err == nil { // the allocation finished before the interrupt
			release(h, signals, g.ID, p, false)
		}
		return exitOfSignal(interrupt), nil
	case err != nil:
		return 0, err
	}
	if err := sendOrder(h, g, p, helper); err != nil {
		// The helper has ended, and its exit code reports the reason as for any program.
		h.Logger().Debug("helper", "error", err)
	}
	stopRaise, stopRefresh := h.RaiseOwn(g), h.RefreshOwn(g)
	exit, err = helper.wait(signals)
	stopRefresh()
	stopRaise()
	if err != nil {
		return 0, err
	}
	release(h, signals, g.ID, p, !helper.hasFailed())
	return exit, nil
}

// sendOrder orders the helper, which waits in the cgroup of the grant, to execute the program p.
func sendOrder(h *host.Host, g *host.Grant, p Program, helper *helper) error {
	env := p.Env
	if env == nil {
		env = os.Environ()
	}
	if p.SetEnv {
		env = view.MemoryEnv(view.Env(env, g.VisibleCPUs()), h.MemoryLimitOf(g), p.Named...)
	}
	order := startOrder{Parent: os.Getpid(), Path: p.Path, Args: toBytes(p.Args), Env: toBytes(env)}
	if g.View.HasFiles() {
		order.View = h.ViewDir(g.ID)
		order.Live = host.LiveParts(g)
	}
	return helper.start(order)
}

// untilInterrupt runs the function do, which waits for the lock. It cancels the context of do when a signal arrives
// that usually ends a program. It returns the last such signal, or nil.
func untilInterrupt(signals <-chan os.Signal, do func(context.Context) error) (interrupt os.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	for {
		select {
		case err = <-done:
			return interrupt, err
		case sig := <-signals:
			if endsProgram(sig) {
				interrupt = sig
				cancel()
			}
		}
	}
}

// release releases a program's CPUs. Earlier signals were meant for the program and are dropped. If a signal arrives while release waits
// for the lock, release gives up, and the next operation releases the CPUs. If the program has not started, release also undoes Candor's
// changes of the ancestors of the program's cgroup.
func release(h *host.Host, signals <-chan os.Signal, name string, p Program, started bool) {
	for len(signals) > 0 {
		<-signals
	}
	_, err := untilInterrupt(signals, func(ctx context.Context) error { return h.ReleaseOwn(ctx, name, started) })
	if err != nil {
		p.OnLeftover(err)
	}
}

// wait forwards signals until the program ends, and returns its exit code.
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
			if !isFromTerminal(sig) {
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
