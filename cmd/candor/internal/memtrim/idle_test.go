package memtrim

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

var kept []byte

// collections returns the number of garbage collections.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

// TestCollector: after many allocations, the collector runs when the program is idle. After few allocations
// it does not run.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // disable automatic collections
	runtime.GC()
	before := collections()
	const most = 1 << 30
	NewCollector(0, most).collect()
	if got := collections(); got != before {
		t.Fatalf("collected %d times for less than %d bytes", got-before, most)
	}
	const least = 8 << 20
	kept = make([]byte, 2*least) // twice the bound, because swept memory is subtracted
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
