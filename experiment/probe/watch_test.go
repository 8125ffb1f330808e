//go:build linux && (amd64 || arm64)

package probe

import (
	"testing"
	"time"
)

// TestSettled: a program counts as started when it has been quiet for as long as its start took.
func TestSettled(t *testing.T) {
	began := time.Unix(1000, 0)
	for _, test := range []struct {
		first     uint32
		last, now time.Duration // since it began
		want      bool
	}{
		{1, 10 * time.Millisecond, 120 * time.Millisecond, true},
		{1, 10 * time.Millisecond, 119 * time.Millisecond, false},
		{1, 5 * time.Second, 10 * time.Second, false},
		{1, 4 * time.Second, 10 * time.Second, true},
		{1, 0, 0, false},         // it has just begun
		{0, 0, time.Hour, false}, // it has not begun
	} {
		w := watch{first: test.first, began: began, last: began.Add(test.last)}
		if got := w.settled(began.Add(test.now)); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
