package main

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/resident"
)

// collectAt is by how much of what is in use the heap may grow before it is collected, in percent. What is in use are a few
// MiB; a collection takes as long as the plugin's part of a container's creation, which would share the CPUs with it. So most
// of them are when nothing is done.
const (
	collectAt    = 150
	collectAfter = 200 * time.Millisecond
	collectLeast = 2 << 20 // bytes
)

// mostThreads is how many CPUs the plugin uses at a time. One would do for the containers' events; quotas that are raised for
// a burst must not wait for one.
const mostThreads = 2

// staySmall has the program take the memory and the CPUs that a plugin needs.
func staySmall() {
	debug.SetGCPercent(collectAt)
	if runtime.GOMAXPROCS(0) > mostThreads {
		runtime.GOMAXPROCS(mostThreads)
	}
}

// collecting is who is told of each operation, and collects garbage when there are none.
func collecting(told func(host.Report)) func(host.Report) {
	c := resident.NewCollector(collectAfter, collectLeast)
	return func(r host.Report) {
		told(r)
		c.Worked()
	}
}

// startTakes is how long, at the most, after its begin, and after it has met the runtime, the plugin does what it never does again.
const startTakes = 5 * time.Second

// trimAfterStart gives the memory back that only the start needed, when it is over.
func trimAfterStart(log *slog.Logger) { time.AfterFunc(startTakes, func() { trim(log) }) }

func trim(log *slog.Logger) {
	if err := resident.Trim(); err != nil {
		log.Debug("memory of the start not given back", "error", err)
	}
}
