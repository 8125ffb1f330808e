package memtrim

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// A Collector collects garbage when a program has had nothing to do for a while, so that it need not when it has.
type Collector struct {
	after time.Duration
	least uint64 // bytes

	mu    sync.Mutex
	timer *time.Timer
}

// NewCollector returns one that collects when nothing was done for so long, if so many bytes were asked for since the last time.
func NewCollector(after time.Duration, least uint64) *Collector {
	return &Collector{after: after, least: least}
}

// Worked tells that the program has done something just now.
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

// garbage is how much of the heap was asked for since it was last collected, in bytes.
func garbage() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	all, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return all - min(all, live)
}
