package host

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

	"github.com/candor-project/candor/view"
)

// A Program is what Run starts.
type Program struct {
	Path   string   // executable file, from FindProgram
	Args   []string // with the name at first
	SetEnv bool     // tell the number of CPUs by environment variables too (view.Env)
	// Left is told when the program has ended and its CPUs are not given back: processes
	// of it go on (ErrPopulated), or the release failed, which leaves it to the next operation.
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
		return "", &ExecError{126, fmt.Errorf("command %.200q: not executable (%w)", command, reason(err))}
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

// reason takes the file's name off an error that names it.
func reason(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}

// Run allocates CPUs for a program, starts it on this process's streams, passes signals on
// to it, waits for its end and releases the CPUs. It returns the program's
// exit code, 128 + n if signal n ended it. On an error the program was not started.
func (h *Host) Run(a Allocation, p Program) (exit int, err error) {
	if err := a.Check(); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)

	helper, err := startHelper(a.View == ViewFull)
	if err != nil {
		return 0, err
	}
	a.PID = helper.process.Pid
	g, early, err := h.allocateUnless(signals, a)
	if err != nil || early != nil {
		helper.abort()
		if early != nil {
			return exitOfSignal(early), h.dropEarly(g, err)
		}
		return 0, err
	}
	order := startOrder{Path: p.Path, Args: slicesOf(p.Args), Env: slicesOf(os.Environ())}
	if p.SetEnv {
		order.Env = slicesOf(view.Env(os.Environ(), g.VisibleCPUs()))
	}
	if a.View == ViewFull {
		order.View = h.store.view(g.ID)
	}
	if err := helper.start(order); err != nil {
		// The helper has ended: its exit code tells, as that of any program.
		h.log.Debug("helper", "error", err)
	}
	exit, err = helper.wait(signals)
	if err != nil {
		return 0, err
	}
	if err := h.ReleaseOwn(context.Background(), g.ID); err != nil {
		p.Left(err)
	}
	return exit, nil
}

// allocateUnless is Allocate, given up when a signal comes that would end the
// program before it was started.
func (h *Host) allocateUnless(signals <-chan os.Signal, a Allocation) (g *Grant, early os.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		g, err = h.Allocate(ctx, a)
	}()
	for {
		select {
		case <-done:
			return g, early, err
		case sig := <-signals:
			if ends(sig) {
				early = sig
				cancel()
			}
		}
	}
}

// dropEarly gives back what was allocated when the signal came.
func (h *Host) dropEarly(g *Grant, err error) error {
	if err != nil {
		return nil // nothing was
	}
	return h.ReleaseOwn(context.Background(), g.ID)
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
