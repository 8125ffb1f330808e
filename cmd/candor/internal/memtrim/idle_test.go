package memtrim

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

var kept []byte

// collections is how often the heap was collected.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

// What was asked for is collected when nothing is done any more, and little is not.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody else collects
	runtime.GC()
	before := collections()
	const most = 1 << 30
	NewCollector(0, most).collect()
	if got := collections(); got != before {
		t.Fatalf("collected %d times for less than %d bytes", got-before, most)
	}
	const least = 8 << 20
	kept = make([]byte, 2*least) // what is swept meanwhile is taken off
	if got := garbage(); got < least {
		t.Errorf("%d bytes since the last collection, want %d or more", got, least)
	}
	c := NewCollector(time.Millisecond, least)
	c.Worked()
	c.Worked()
	for end := time.Now().Add(time.Minute); collections() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not collected in a minute")
		}
	}
}
