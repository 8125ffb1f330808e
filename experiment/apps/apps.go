// Package apps has the programs that candor isolate measures unless it is told others. Four stand for the applications
// of an autonomous vehicle in Büttner et al., "Performance Isolation of Co-located Workload in a Container-based Vehicle
// Software Architecture" (AMBIENT 2019): none of those does much input or output. Two do little else.
//
// Each does a fixed amount of work from a fixed seed, a second or so of one CPU's time, and returns a number that depends
// on all of it.
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
	Does string // in a few words, with its threads
	// run does the work, in so many parts: a second's are secondOf. What it writes goes into a folder.
	run      func(parts int, dir string) (uint64, error)
	secondOf int
}

// All are the study's four in its order, then the two others.
var All = []App{
	{"perception", "finds round signs in camera frames; a thread for each CPU that it sees", perceive, 200},
	{"planning", "shortest ways through a road graph (Dijkstra); one thread", plan, 110},
	{"prediction", "a bank of Kalman filters; a thread for each CPU that it sees", predict, 2500},
	{"decision", "votes of a forest of decision trees; one thread", decide, 300},
	{"disk", "writes 4 MiB at a time, synced, and reads them back; one thread", store, 30},
	{"network", "sends messages over TCP on the loopback device, each answered; two threads", send, 16_000},
}

// ErrNoApp is a name that no application has.
var ErrNoApp = errors.New("no such application")

// Run runs an application with a share of its work, 1 for all.
func Run(name string, share float64, dir string) (uint64, error) {
	var names []string
	for _, a := range All {
		if a.Name == name {
			return a.run(max(1, int(share*float64(a.secondOf))), dir)
		}
		names = append(names, a.Name)
	}
	return 0, fmt.Errorf("%w: %.60q: want one of %s", ErrNoApp, name, strings.Join(names, ", "))
}

// randomOf is the generator of an application's input.
func randomOf(part int) *rand.Rand { return rand.New(rand.NewPCG(2019, uint64(part))) }

// inParallel does parts of a work in a thread for each CPU that the program sees, and adds up what they give.
func inParallel(parts int, do func(part int) uint64) (sum uint64) {
	threads := runtime.NumCPU() // not Go's own number, which heeds a quota too: few other languages do
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
