package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/experiment"
)

// interrupted runs a command line, and sends SIGINT to this process until the command ends.
func interrupted(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	keep := make(chan os.Signal, 1) // without it, a signal before or after the command's own handler would end the test
	signal.Notify(keep, unix.SIGINT)
	defer signal.Stop(keep)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(300 * time.Millisecond):
				_ = unix.Kill(unix.Getpid(), unix.SIGINT)
			}
		}
	}()
	return command(t, "", args...)
}

// TestPartialResults: after Ctrl-C, a command prints its results so far, marks them as partial and exits with 130.
func TestPartialResults(t *testing.T) {
	for line, done := range map[string]string{
		"load --work 1ms --rest 10ms --duration 1m":                                " calls done\n",
		"simulate --algorithm candor --trace synthetic:machines=3000,days=20":      "started ",
		"top -n 1000 --interval 100ms --state-dir " + t.TempDir() + " --sort name": " of 1000 samples done\n",
	} {
		args := strings.Fields(line)
		code, out, errOut := interrupted(t, append(args, "-o", "json")...)
		if args[0] == "top" && code == exitBadInput {
			t.Logf("candor top cannot read this machine: %s", errOut)
			continue
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if args[0] == "top" { // a value per line
			out = lines[len(lines)-1]
		}
		var got struct{ Partial bool }
		if err := json.Unmarshal([]byte(out), &got); err != nil || !got.Partial || code != 130 ||
			!strings.HasPrefix(errOut, "candor "+args[0]+": stopped by SIGINT: ") || !strings.Contains(errOut, done) {
			t.Errorf("candor %s -o json: code %d, %v, %q\n%s", line, code, err, errOut, out)
		}
		code, out, errOut = interrupted(t, args...)
		if first := "Partial result: the "; code != 130 || !strings.Contains(out, first) || args[0] != "top" && !strings.HasPrefix(out, first) {
			t.Errorf("candor %s: code %d, %q; want the first line %s\n%s", line, code, errOut, first, out)
		}
	}
}

// TestStoppedWithoutResult: after Ctrl-C before the first result, an experiment exits with 130. Another error keeps its exit
// code.
func TestStoppedWithoutResult(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&signalError{unix.SIGINT})
	for _, test := range []struct {
		err  error
		code int
		want string
	}{
		{fmt.Errorf("app alone: %w", ctx.Err()), 130, "stopped by SIGINT: no run done"},
		{context.Cause(ctx), 130, "stopped by SIGINT: no run done"},
		{fmt.Errorf("%w: none", experiment.ErrBadWorkload), exitBadInput, "bad workload: none"},
		{errors.New("disk full"), exitFailure, "disk full"},
	} {
		if err := withoutResult(ctx, test.err); exitCode(err, true) != test.code || err.Error() != test.want {
			t.Errorf("%v: code %d, %v; want %d, %s", test.err, exitCode(err, true), err, test.code, test.want)
		}
	}
}
