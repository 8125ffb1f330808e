// Package apps has the programs that candor isolate measures by default. Four stand for the applications of an
// autonomous vehicle in Büttner et al., "Performance Isolation of Co-located Workload in a Container-based Vehicle
// Software Architecture" (AMBIENT 2019). These four do little input and output. Two further applications mainly do
// input and output.
//
// Each App does a fixed amount of work from a fixed seed, which takes about a second of CPU time. It returns a number
// that depends on all of its work.
package apps

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
)

// An App is a program to measure.
type App struct {
	Name string
	Does string // short description of its work and its threads
	// run does the given number of parts of the work, and writes files into dir. secondOf is the number of parts that
	// take about a second.
	run      func(parts int, dir string) (uint64, error)
	secondOf int
}

// All lists the four applications of Büttner et al. in their order, then the two applications for input and output.
var All = []App{
	{"perception", "finds round signs in camera frames; a thread for each CPU that it sees", perceive, 200},
	{"planning", "shortest ways through a road graph (Dijkstra); one thread", plan, 110},
	{"prediction", "a bank of Kalman filters; a thread for each CPU that it sees", predict, 2500},
	{"decision", "votes of a forest of decision trees; one thread", decide, 300},
	{"disk", "writes 4 MiB at a time, synced, and reads them back; one thread", useDisk, 30},
	{"network", "sends messages over TCP on the loopback device, each answered; two threads", send, 16_000},
}

// ErrNoApp means that no application has the given name.
var ErrNoApp = errors.New("no such application")

// Run runs an application with a share of its work; 1 is all of its work.
func Run(name string, share float64, dir string) (uint64, error) {
	var names []string
	for _, a := range All {
		if a.Name == name {
			return a.run(max(1, int(share*float64(a.secondOf))), dir)
		}
		names = append(names, a.Name)
	}
	return 0, fmt.Errorf("%w: %.60q: must be one of %s", ErrNoApp, name, strings.Join(names, ", "))
}

// randomOf returns the random generator of a part's input.
func randomOf(part int) *rand.Rand { return rand.New(rand.NewPCG(2019, uint64(part))) }

// inParallel runs the parts of a task on a thread for each CPU that the program sees, and adds up their results.
func inParallel(parts int, do func(part int) uint64) (sum uint64) {
	threads := runtime.NumCPU() // not GOMAXPROCS, which depends on the quota; the default in most languages does not
	runtime.GOMAXPROCS(threads)
	sums := make([]uint64, threads)
	var all sync.WaitGroup
	for t := range threads {
		all.Go(func() {
			for part := t; part < parts; part += threads {
				sums[t] += do(part)
			}
		})
	}
	all.Wait()
	for _, s := range sums {
		sum += s
	}
	return sum
}
