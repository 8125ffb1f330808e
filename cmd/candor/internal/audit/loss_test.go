package audit

import (
	"slices"
	"testing"
	"time"
)

func TestGain(t *testing.T) {
	for _, test := range []struct {
		c       Container
		differs bool
		want    Gain
	}{
		{Container{Limit: 1500, Sees: 64, Threads: 64, Periods: 100, Throttled: 40}, true, Likely},
		{Container{Limit: 1500, Sees: 64, Threads: 64, Periods: 100, Throttled: 0}, true, Maybe},
		{Container{Limit: 1500, Sees: 64, Threads: 64, Periods: 3, Throttled: 3}, true, Maybe},
		{Container{Limit: 1500, Sees: 64, Threads: 3, Periods: 100, Throttled: 1}, true, Likely},
		{Container{Limit: 1500, Sees: 64, Threads: 2, Periods: 100, Throttled: 40}, true, No},
		{Container{Limit: 1500, Sees: 2, Threads: 64, Periods: 100, Throttled: 40}, false, No},
		{Container{Limit: 4000, Sees: 2, Threads: 64, Periods: 100, Throttled: 40}, true, No},
		{Container{Limit: 0, Sees: 64, Threads: 64}, false, No},
		{Container{Limit: 1500, Sees: 2, SeesFiles: 2, Threads: 64}, false, No},
		{Container{Limit: 1500, Sees: 2, SeesFiles: 64, Threads: 2}, true, No},
		{Container{Limit: 1500, Sees: 2, SeesFiles: 64, Threads: 64}, true, Maybe},
		{Container{Limit: 4000, Sees: 2, SeesFiles: 64, Threads: 64, Periods: 100, Throttled: 40}, true, No},
		{Container{Limit: 0, Sees: 2, SeesFiles: 64, Threads: 64}, false, No},
	} {
		if test.c.Differs() != test.differs || test.c.Gain() != test.want {
			t.Errorf("%+v: differs %v, gain %v; want %v, %v", test.c, test.c.Differs(), test.c.Gain(), test.differs, test.want)
		}
	}
}

func TestShare(t *testing.T) {
	for _, test := range []struct {
		periods, throttled uint64
		want               float64
	}{{0, 0, 0}, {0, 7, 0}, {4, 1, 0.25}, {4, 5, 1}} {
		if got := (&Container{Periods: test.periods, Throttled: test.throttled}).Share(); got != test.want {
			t.Errorf("%d of %d: %v, want %v", test.throttled, test.periods, got, test.want)
		}
	}
}

func TestSortByLoss(t *testing.T) {
	all := []Container{
		{Name: "d"}, {Name: "c", Limit: 1000, Threads: 3}, {Name: "b", Limit: 1000, Threads: 30},
		{Name: "e", Threads: 500}, {Name: "a", ThrottledTime: time.Second}, {Name: "z", ThrottledTime: time.Minute},
	}
	sortByLoss(all)
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	if want := []string{"z", "a", "b", "c", "d", "e"}; !slices.Equal(names, want) {
		t.Errorf("%v; want %v", names, want)
	}
}
