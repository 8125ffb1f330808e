package ledger

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	a, b := Account{"a", Log}, Account{"b", Log}
	for name, test := range map[string]struct {
		samples Samples
		want    map[Account]time.Duration // of 100 s
		rest    time.Duration
	}{
		"no samples":     {Samples{}, nil, 100},
		"only user mode": {Samples{User: 10}, nil, 100},
		"one container": {
			Samples{User: 40, Calls: 40, Files: map[Account]IO{a: {10, 10}}},
			map[Account]time.Duration{a: 100}, 0,
		},
		"calls follow reads": {
			Samples{Calls: 60, Files: map[Account]IO{a: {10, 10}, b: {20, 0}}},
			map[Account]time.Duration{a: 20 + 20, b: 20 + 40}, 0,
		},
		"half of the user mode follows reads, half reads and writes": {
			Samples{User: 60, Files: map[Account]IO{a: {10, 10}, b: {20, 0}}},
			map[Account]time.Duration{a: 20 + 10 + 15, b: 20 + 20 + 15}, 0,
		},
		"other files take their part": {
			Samples{User: 40, Calls: 40, Files: map[Account]IO{a: {5, 5}}, Rest: IO{5, 5}},
			map[Account]time.Duration{a: 50}, 50,
		},
		"writes without reads": {
			Samples{User: 50, Calls: 25, Files: map[Account]IO{a: {0, 25}}},
			map[Account]time.Duration{a: 100}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			per, rest := Split(100*time.Second, test.samples.times(1e6))
			if !isClose(rest, test.rest*time.Second) {
				t.Errorf("rest: got %v, want %v s", rest, int(test.rest))
			}
			for account, want := range test.want {
				if got := per[account]; !isClose(got, want*time.Second) {
					t.Errorf("%v: got %v, want %v s", account, got, int(want))
				}
			}
			if len(per) != len(test.samples.Files) && test.want != nil {
				t.Errorf("got %v", per)
			}
		})
	}
}

// times returns the samples of a longer measurement.
func (s Samples) times(n float64) Samples {
	scale := func(io IO) IO { return IO{n * io.Read, n * io.Write} }
	long := Samples{User: n * s.User, Calls: n * s.Calls, Rest: scale(s.Rest), Files: map[Account]IO{}}
	for account, io := range s.Files {
		long.Files[account] = scale(io)
	}
	return long
}

// TestSplitFewReads: a single read of another file does not take the time of a container that writes.
func TestSplitFewReads(t *testing.T) {
	a := Account{"a", Log}
	s := Samples{User: 300, Calls: 100, Files: map[Account]IO{a: {0, 600}}, Rest: IO{Read: 1}}
	if per, rest := Split(time.Second, s); rest > 50*time.Millisecond {
		t.Errorf("rest: got %v of 1 s, container %v", rest, per[a])
	}
	if per, rest := Split(time.Second, s.times(1000)); rest < 200*time.Millisecond {
		t.Errorf("with a thousand reads, rest: got %v of 1 s, container %v", rest, per[a])
	}
}

func isClose(a, b time.Duration) bool { return math.Abs(float64(a-b)) < float64(time.Millisecond) }

// TestSplitProperties: no part is negative, the parts add up to the total, and a container with more reads and more writes
// than another gets at least as much.
func TestSplitProperties(t *testing.T) {
	weight := rapid.Float64Range(0, 1e6)
	io := rapid.Custom(func(t *rapid.T) IO { return IO{weight.Draw(t, "read"), weight.Draw(t, "write")} })
	rapid.Check(t, func(t *rapid.T) {
		s := Samples{User: weight.Draw(t, "user"), Calls: weight.Draw(t, "calls"), Rest: io.Draw(t, "rest"), Files: map[Account]IO{}}
		for i := range rapid.IntRange(0, 5).Draw(t, "containers") {
			s.Files[Account{fmt.Sprint(i), Log}] = io.Draw(t, "files")
		}
		total := time.Duration(rapid.Int64Range(-10, 1e13).Draw(t, "total"))
		per, rest := Split(total, s)
		sum := rest
		for account, part := range per {
			if part < 0 {
				t.Fatalf("%v: got %v", account, part)
			}
			sum += part
			for other, other2 := range s.Files {
				mine := s.Files[account]
				if mine.Read >= other2.Read && mine.Write >= other2.Write && part+time.Microsecond < per[other] {
					t.Fatalf("%v with %v got %v, less than %v of %v with %v", account, mine, part, per[other], other, other2)
				}
			}
		}
		if rest < 0 || sum != max(total, 0) {
			t.Fatalf("the parts of %v add up to %v, rest %v", total, sum, rest)
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	s := Samples{User: 100, Calls: 300, Rest: IO{20, 5}, Files: map[Account]IO{}}
	for i := range 50 {
		s.Files[Account{fmt.Sprint(i), Log}] = IO{float64(i), float64(2 * i)}
	}
	for b.Loop() {
		Split(time.Second, s)
	}
}
