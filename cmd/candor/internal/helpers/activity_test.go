package helpers

import (
	"testing"
	"time"
)

// TestActivity: a use rises if it is clearly higher than at the last comparison.
func TestActivity(t *testing.T) {
	var a Activity
	now, used := time.Now(), time.Duration(0)
	for i, c := range []struct {
		after time.Duration
		use   float64 // in CPUs
		want  bool
	}{
		{time.Second, 0.05, true}, // nothing to compare with
		{time.Second, 0.05, true}, // the use before the first comparison is not known
		{time.Second, 0.07, false},
		{5 * time.Second, 0.10, false},
		{time.Second, 0.17, true},
		{time.Second, 0.17, false}, // the same use again
		{time.Second, 0, false},
		{time.Second, 0.005, false},
		{100 * time.Millisecond, 0.5, true},
		{0, 0, false},
	} {
		now, used = now.Add(c.after), used+time.Duration(c.use*float64(c.after))
		if got := a.rises(now, used); got != c.want {
			t.Errorf("comparison %d: got %v, want %v", i, got, c.want)
		}
	}
}
