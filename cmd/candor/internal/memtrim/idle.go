package memtrim

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// A Collector runs the garbage collector while a program is idle, so that a collection during work becomes less likely.
type Collector struct {
	after time.Duration
	least uint64 // bytes

	mu    sync.Mutex
	timer *time.Timer
}

// NewCollector returns a Collector. It collects garbage when the program has been idle for idleTime, but only if the program has allocated
// minBytes or more since the last collection.
func NewCollector(idleTime time.Duration, minBytes uint64) *Collector {
	return &Collector{after: idleTime, least: minBytes}
}

// Worked starts a new idle time. The program calls Worked after each piece of work.
func (c *Collector) Worked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		c.timer = time.AfterFunc(c.after, c.collect)
		return
	}
	c.timer.Reset(c.after)
}

func (c *Collector) collect() {
	if garbage() >= c.least {
		runtime.GC()
	}
}

// garbage returns the number of bytes that were allocated since the last collection.
func garbage() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	all, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return all - min(all, live)
}
