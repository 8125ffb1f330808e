package host

import (
	"maps"
	"testing"
	"time"
)

// TestParseBusy checks which columns of /proc/stat count as busy.
func TestParseBusy(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 400 500 60 70 8 0 0\ncpu17 10 0 0 0 0 0 0 0 0 0\nintr 5\n"
	busy, err := parseBusy(stat)
	if want := map[int]time.Duration{0: 60 * time.Millisecond, 17: 100 * time.Millisecond}; err != nil || !maps.Equal(busy, want) {
		t.Errorf("%v, %v", busy, err)
	}
	for _, bad := range []string{"cpux 1 2 3 4 5 6 7\n", "cpu0 1 x 3 4 5 6 7\n", "cpu99999 1 2 3 4 5 6 7\n"} {
		if _, err := parseBusy(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
