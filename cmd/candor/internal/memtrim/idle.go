package memtrim

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// A Collector collects garbage while a program is idle, so that it does not collect during work.
type Collector struct {
	after time.Duration
	least uint64 // bytes

	mu    sync.Mutex
	timer *time.Timer
}

// NewCollector returns a collector that runs after an idle time, if the program has allocated at least that many bytes since
// the last collection.
func NewCollector(after time.Duration, least uint64) *Collector {
	return &Collector{after: after, least: least}
}

// Worked marks the program as busy.
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

// garbage returns the bytes that were allocated since the last collection.
func garbage() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	all, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return all - min(all, live)
}
