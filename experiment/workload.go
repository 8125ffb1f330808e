package experiment

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Workload is a program and the metrics of its runs.
type Workload struct {
	Name    string        // in reports; "": the name of the program's file
	Command []string      // {threads} in an argument is replaced by the number of threads
	Image   *Image        // if set, the setup applies to the image's container, and Command holds the image's arguments
	Server  []string      // if set, the setup applies to the server, and Command is the server's client, which has no limit
	Metrics []Metric      // in addition to the time
	Timeout time.Duration // a longer run is a failed run
}

// DefaultTimeout is the default time limit of a run.
const DefaultTimeout = 10 * time.Minute

// ErrBadWorkload means that a workload cannot run.
var ErrBadWorkload = errors.New("bad workload")

// Check reports the first invalid field of a workload.
func (w *Workload) Check() error {
	switch {
	case len(w.Command) == 0 && w.Image == nil:
		return fmt.Errorf("%w: no command", ErrBadWorkload)
	case len(w.Server) > 0 && w.Image != nil:
		return fmt.Errorf("%w: server and image exclude each other; use one", ErrBadWorkload)
	case w.Timeout < time.Millisecond || w.Timeout > 24*time.Hour:
		return fmt.Errorf("%w: timeout %v: must be 1ms to 24h", ErrBadWorkload, w.Timeout)
	}
	for i := range w.Metrics {
		name := w.Metrics[i].Name
		if name == WallTime.Name || slices.ContainsFunc(w.Metrics[:i], func(m Metric) bool { return m.Name == name }) {
			return fmt.Errorf("%w: duplicate metric %q", ErrBadWorkload, name)
		}
	}
	return nil
}

const threadsPlaceholder = "{threads}"

// hasThreadsPlaceholder reports whether the command has a placeholder for the number of threads.
func (w *Workload) hasThreadsPlaceholder() bool {
	return slices.ContainsFunc(w.Command, func(arg string) bool { return strings.Contains(arg, threadsPlaceholder) })
}

// server returns the server as a separate workload.
func (w *Workload) server() *Workload {
	return &Workload{Command: w.Server, Timeout: w.Timeout}
}

// args returns the command with the number of threads in place of the placeholder.
func (w *Workload) args(threads int) []string {
	args := slices.Clone(w.Command)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], threadsPlaceholder, strconv.Itoa(threads))
	}
	return args
}

// environment returns this process's environment. If the setup has a number of threads and the command has no
// placeholder for it, environment sets OMP_NUM_THREADS.
func (w *Workload) environment(s *Setup) []string {
	env, added := os.Environ(), w.variables(s)
	if len(added) > 0 {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, threadsVariable) })
	}
	return append(env, added...)
}

const threadsVariable = "OMP_NUM_THREADS="

// variables returns the environment variables that a setup adds.
func (w *Workload) variables(s *Setup) []string {
	if s.Threads == 0 || w.hasThreadsPlaceholder() {
		return nil
	}
	return []string{threadsVariable + strconv.Itoa(s.Threads)}
}
