package main

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/candor-project/candor/cmd/candor/internal/memtrim"
	"github.com/candor-project/candor/host"
)

// collectAt is by how much of what is in use the heap may grow before it is collected, in percent. What is in use are a few
// MiB; a collection takes as long as the plugin's part of a container's creation, which would share the CPUs with it. So most
// of them are when nothing is done.
const (
	collectAt    = 150
	collectAfter = time.Second
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
	c := memtrim.NewCollector(collectAfter, collectLeast)
	return func(r host.Report) {
		told(r)
		c.Worked()
	}
}

const (
	startTakes  = 5 * time.Second // at the most; then much of the program is never needed again
	longestTrim = time.Hour       // between two looks
	mostProgram = 8 << 20         // bytes of the program that are left in memory
)

// trimAtTimes gives back what of the program is in memory and was needed once: after the start, and ever more seldom later, such
// as when the runtime or the API server has been met.
func trimAtTimes(ctx context.Context, log *slog.Logger) {
	for wait := startTakes; ; wait = min(2*wait, longestTrim) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if size, err := memtrim.Files(); err == nil && size <= mostProgram {
			continue
		}
		if err := memtrim.Trim(); err != nil {
			log.Debug("memory not given back", "error", err)
		}
	}
}
