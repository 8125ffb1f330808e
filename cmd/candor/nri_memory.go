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

// collectAt is the growth of the heap, in percent of the live heap, before a garbage collection. The live heap is a few MiB. A
// collection takes as long as the plugin's work for a new container, and would compete with this work for the CPUs. Therefore
// most collections run while the plugin is idle.
const (
	collectAt    = 150
	collectAfter = time.Second
	collectLeast = 2 << 20 // bytes
)

// mostThreads is the number of CPUs that the plugin uses at a time. Events of containers need a single CPU. The second CPU runs
// the loop that raises quotas, so that this loop does not wait for the events.
const mostThreads = 2

// staySmall limits the memory and the CPUs of the plugin.
func staySmall() {
	debug.SetGCPercent(collectAt)
	if runtime.GOMAXPROCS(0) > mostThreads {
		runtime.GOMAXPROCS(mostThreads)
	}
}

// collecting returns a callback for the report of each operation. The callback calls told. If no operation follows for
// collectAfter, the garbage is collected.
func collecting(told func(host.Report)) func(host.Report) {
	c := memtrim.NewCollector(collectAfter, collectLeast)
	return func(r host.Report) {
		told(r)
		c.Worked()
	}
}

const (
	startTakes  = 5 * time.Second // longest duration of the start, after which much of the program is not needed again
	longestTrim = time.Hour       // longest time between two trims
	mostProgram = 8 << 20         // bytes of the program's files that can stay in memory
)

// trimAtTimes releases the memory pages that the program needed only for its start. It repeats this at growing intervals, because the
// first contact with the runtime or the API server loads pages again.
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
			log.Debug("cannot release memory", "error", err)
		}
	}
}
