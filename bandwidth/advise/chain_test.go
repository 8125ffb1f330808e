package advise

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/bandwidth"
)

// TestAnswers: six pieces of 10 ms start at 60 ms, under a limit of 40 ms per 100 ms. The periods of the
// first container start at 50 ms: it does four pieces until 100 ms and two from 150 ms on. The periods of the
// second container start at 12 ms: it does each piece without delay. From 100 ms to 150 ms, the throttled
// first container cannot pass on its results.
func TestAnswers(t *testing.T) {
	c := newChain(2, 1, bandwidth.Bandwidth{Quota: 40 * ms, Period: 100 * ms})
	for i := range 6 {
		c.add(time.Duration(60+10*i)*ms, 10*ms, 1)
	}
	var got []time.Duration
	for now := time.Duration(0); now < 300*ms; now += 10 * ms {
		c.run(now, func(at time.Duration) { got = append(got, at) })
	}
	want := []time.Duration{80 * ms, 90 * ms, 150 * ms, 150 * ms, 170 * ms, 180 * ms}
	if !slices.EqualFunc(got, want, func(a, b time.Duration) bool { return (a - b).Abs() <= ms }) {
		t.Errorf("answers at %v, want %v", got, want)
	}
}

// TestAnswersInParts: the times of the answers do not depend on the number of calls. No answer comes before its work,
// and the answers keep their order.
func TestAnswersInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hops := rapid.IntRange(1, 4).Draw(t, "hops")
		works := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, 0, ms, 10 * ms, 30 * ms}), 1, 50).Draw(t, "works")
		answers := func(every time.Duration) (got []time.Duration) {
			c := newChain(hops, 2, bandwidth.Bandwidth{Quota: 25 * ms, Period: 100 * ms})
			for i, w := range works {
				if w > 0 {
					c.add(time.Duration(i)*10*ms, w, 2)
				}
			}
			for now := every; now <= 10*time.Second; now += every {
				c.run(now, func(at time.Duration) { got = append(got, at) })
			}
			return got
		}
		once, often := answers(10*time.Second), answers(8*ms)
		if !slices.IsSorted(once) || !slices.EqualFunc(once, often, func(a, b time.Duration) bool { return (a - b).Abs() < ms }) {
			t.Fatalf("run once %v\nrun often %v", once, often)
		}
		n := 0
		for i, w := range works {
			if w > 0 {
				if least := time.Duration(i)*10*ms + time.Duration(hops)*w/2; once[n] < least {
					t.Fatalf("piece %d is back at %v, before %v", i, once[n], least)
				}
				n++
			}
		}
		if n != len(once) {
			t.Fatalf("%d answers of %d", len(once), n)
		}
	})
}

func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, want := queue[int]{}, []int{}
		for i, push := range rapid.SliceOf(rapid.Bool()).Draw(t, "pushes") {
			if push {
				q.push(i)
				want = append(want, i)
			} else if len(want) > 0 {
				if first := q.first(); first != want[0] || q.pop() != first {
					t.Fatalf("%d, want %d", first, want[0])
				}
				want = want[1:]
			}
			if q.isEmpty() != (len(want) == 0) || len(q.list) > 2*len(want)+1 && len(q.list) > 2 {
				t.Fatalf("holds %d for %d", len(q.list), len(want))
			}
		}
	})
}
