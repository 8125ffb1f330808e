package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// untilSignal returns a context that the first SIGINT, SIGTERM or SIGHUP cancels, with a *signalError as its cause. The second signal
// ends the process. A signal that the caller of candor ignores, as nohup does for SIGHUP, has no effect.
func untilSignal(cmd *cobra.Command) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	received := make(chan os.Signal, 1)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(received, s)
		}
	}
	go func() {
		select {
		case s := <-received:
			signal.Stop(received) // the next signal has its default effect
			cancel(&signalError{s.(unix.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(received)
		cancel(nil)
	}
}

// A signalError is the cause (context.Cause) of a cancellation by a signal.
type signalError struct{ signal unix.Signal }

func (e *signalError) Error() string { return "stopped by " + unix.SignalName(e.signal) }

// Is makes a signalError equal to context.Canceled for errors.Is. Some functions return the cause of a canceled context instead
// of the context's error.
func (e *signalError) Is(target error) bool { return target == context.Canceled }

// stoppedError returns the error of a command that ends early because its context is canceled. The text describes the completed work. After
// a signal, the exit code is 128 plus the number of the signal, as in a shell: 130 for Ctrl-C.
func stoppedError(ctx context.Context, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	var stopped *signalError
	if !errors.As(context.Cause(ctx), &stopped) {
		return errors.New("stopped: " + text)
	}
	return &exitError{128 + int(stopped.signal), fmt.Errorf("%w: %s", stopped, text)}
}

// partialLine returns the first line of the text output of a command that a signal has stopped. In JSON output, such a result has the
// field partial.
func partialLine(text string) string { return "Partial result: " + text + ".\n" }
