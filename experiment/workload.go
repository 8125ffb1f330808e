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

// A Workload is a program, and what is measured of it.
type Workload struct {
	Name    string        // in reports; "" for that of the program's file
	Command []string      // {threads} in an argument is the number of threads to start
	Image   *Image        // if any, its container is what a set-up is about, and Command are its arguments
	Server  []string      // if any, it is what a set-up is about, and Command is its client, which has no limit
	Metrics []Metric      // besides the time
	Timeout time.Duration // after which a run has failed
}

// DefaultTimeout is long enough for what people wait for.
const DefaultTimeout = 10 * time.Minute

// ErrBadWorkload is a workload that cannot be run.
var ErrBadWorkload = errors.New("bad workload")

// Check says what is wrong with a workload.
func (w *Workload) Check() error {
	switch {
	case len(w.Command) == 0 && w.Image == nil:
		return fmt.Errorf("%w: no command", ErrBadWorkload)
	case len(w.Server) > 0 && w.Image != nil:
		return fmt.Errorf("%w: a server in an image: want one of the two", ErrBadWorkload)
	case w.Timeout < time.Millisecond || w.Timeout > 24*time.Hour:
		return fmt.Errorf("%w: timeout %v: want 1ms to 24h", ErrBadWorkload, w.Timeout)
	}
	for i := range w.Metrics {
		name := w.Metrics[i].Name
		if name == WallTime.Name || slices.ContainsFunc(w.Metrics[:i], func(m Metric) bool { return m.Name == name }) {
			return fmt.Errorf("%w: metric %q is there twice", ErrBadWorkload, name)
		}
	}
	return nil
}

const threadsWord = "{threads}"

// countsThreads reports whether the command says where the number of threads goes.
func (w *Workload) countsThreads() bool {
	return slices.ContainsFunc(w.Command, func(arg string) bool { return strings.Contains(arg, threadsWord) })
}

// server is the server as a workload of its own.
func (w *Workload) server() *Workload {
	return &Workload{Command: w.Server, Timeout: w.Timeout}
}

// args returns the command with a number of threads.
func (w *Workload) args(threads int) []string {
	args := slices.Clone(w.Command)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], threadsWord, strconv.Itoa(threads))
	}
	return args
}

// environment is this process's, and for a program that is told its threads in no other way, OpenMP's variable.
func (w *Workload) environment(s *Setup) []string {
	env, more := os.Environ(), w.variables(s)
	if len(more) > 0 {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, threadsVariable) })
	}
	return append(env, more...)
}

const threadsVariable = "OMP_NUM_THREADS="

// variables are those that a set-up adds.
func (w *Workload) variables(s *Setup) []string {
	if s.Threads == 0 || w.countsThreads() {
		return nil
	}
	return []string{threadsVariable + strconv.Itoa(s.Threads)}
}
