package hybrid_test

import (
	"math/rand/v2"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// bruteForce answers a question by evaluating every arrangement in steps of one unit: every division of each rest among exactly as many
// CPUs as the rest needs, and every set of CPUs for the flexible containers.
func bruteForce(q question, unit hybrid.Milli) hybrid.Milli {
	best := hybrid.Milli(-1)
	used := make([]hybrid.Milli, q.cpus)
	holders := make([]int, q.cpus)
	var place func(item, cpu, count int, rest hybrid.Milli)
	next := func(item int) {
		if item == len(q.rests) {
			if s := q.bestFlexible(used, holders); s >= 0 && (best < 0 || s < best) {
				best = s
			}
			return
		}
		place(item, 0, ceil(q.rests[item]), q.rests[item])
	}
	place = func(item, cpu, count int, rest hybrid.Milli) {
		if count == 0 {
			if rest == 0 {
				next(item + 1)
			}
			return
		}
		if cpu == q.cpus {
			return
		}
		place(item, cpu+1, count, rest)
		holders[cpu]++
		for part := unit; part <= min(rest, 1000-used[cpu]); part += unit {
			used[cpu] += part
			place(item, cpu+1, count-1, rest-part)
			used[cpu] -= part
		}
		holders[cpu]--
	}
	next(0)
	return best
}

// bestFlexible tries every set of CPUs for the flexible containers. It returns the lowest shared time, or -1 if no set has enough room.
func (q question) bestFlexible(used []hybrid.Milli, holders []int) hybrid.Milli {
	best := hybrid.Milli(-1)
	for mask := range 1 << q.cpus {
		room, all, shared := hybrid.Milli(0), hybrid.Milli(0), hybrid.Milli(0)
		without := false
		for cpu, u := range used {
			flexible := q.hasFlexible && mask>>cpu&1 == 1
			all += 1000 - u
			if flexible {
				room += 1000 - u
			}
			if u > 0 && (flexible || holders[cpu] > 1) {
				shared += u
			}
			without = without || u == 0 && q.hasFlexible && !flexible
		}
		if without || all < q.minShared || q.hasFlexible && room < max(1, q.guarantees, q.minShared) {
			continue
		}
		if best < 0 || shared < best {
			best = shared
		}
	}
	return best
}

// The oracle agrees with exhaustive search on up to three CPUs.
func TestOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	answers := map[string]int{}
	for range 30_000 {
		unit := []hybrid.Milli{125, 200, 250}[random.IntN(3)]
		q := question{cpus: 1 + random.IntN(3), hasFlexible: random.IntN(3) > 0}
		most := int(1000/unit) * q.cpus
		for left := random.IntN(most + 1); left > 0 && len(q.rests) < 5; {
			n := 1 + random.IntN(max(1, left*2/3))
			q.rests = append(q.rests, hybrid.Milli(n)*unit)
			left -= n + random.IntN(2)
		}
		if q.hasFlexible {
			q.guarantees = unit * hybrid.Milli(random.IntN(most/2))
		}
		q.minShared = unit * hybrid.Milli(max(0, random.IntN(9)-6))
		want := bruteForce(q, unit)
		if got := q.leastShared(); got != want {
			t.Fatalf("%+v: least shared time %d, brute force finds %d", q, got, want)
		}
		switch {
		case want < 0:
			answers["impossible"]++
		case want > 0:
			answers["shared"]++
		default:
			answers["unshared"]++
		}
	}
	t.Log(answers)
	if min(answers["impossible"], answers["shared"], answers["unshared"]) < 1000 {
		t.Error("too few questions of one kind")
	}
}

// packs agrees with a search that tries every bin for every fraction.
func TestPackSolver(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	answers := map[bool]int{}
	for range 3_000 {
		bins := 1 + random.IntN(4)
		var q question
		for room := 1000*bins - random.IntN(150); room > 0; {
			f := min(room, 150+random.IntN(600))
			q.rests, room = append(q.rests, hybrid.Milli(f)), room-f
		}
		_, fractions := q.split()
		want := packsNaively(fractions, make([]hybrid.Milli, bins))
		if got := packs(fractions, bins); got != want {
			t.Fatalf("%v in %d bins: %v, want %v", fractions, bins, got, want)
		}
		answers[want]++
	}
	t.Log(answers)
	if min(answers[true], answers[false]) < 200 {
		t.Error("too few questions of one kind")
	}
}

func packsNaively(fractions, used []hybrid.Milli) bool {
	if len(fractions) == 0 {
		return true
	}
	for i := range used {
		if used[i]+fractions[0] <= 1000 {
			used[i] += fractions[0]
			packed := packsNaively(fractions[1:], used)
			if used[i] -= fractions[0]; packed {
				return true
			}
		}
	}
	return false
}
