package host

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
)

// TestOrder states the expected order of the common operations.
func TestOrder(t *testing.T) {
	set := cpuset.MustParse
	for _, test := range []struct {
		name      string
		moves     []move
		exclusive string
		want      string
	}{
		{"shrink before create", []move{{"web", set(""), set("0-1")}, {"log", set("0-3"), set("2-3")}}, "0-1", "log=2-3 web=0-1"},
		{"grow after an end", []move{{"web", set("0-1"), set("")}, {"log", set("2-3"), set("0-3")}}, "0-1", "log=0-3"},
		{"leave, then take", []move{{"a", set("0-1"), set("1-2")}, {"b", set("2-3"), set("0,3")}}, "0-3", "a=1 b=3 a=1-2 b=0,3"},
		{"a jump waits for its place", []move{{"a", set("0"), set("1")}, {"b", set("1"), set("2")}}, "0-2", "b=2 a=1"},
		{"an exchange parks one", []move{{"a", set("0"), set("1")}, {"b", set("1"), set("0")}, {"log", set("2"), set("2")}}, "0-1", "a=2 b=0 a=1"},
		{"equal values are not written", []move{{"a", set("0"), set("0")}}, "0", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			writes, clean := orderWrites(test.moves, set(test.exclusive))
			var got string
			for i, w := range writes {
				if i > 0 {
					got += " "
				}
				got += w.group + "=" + w.cpus.String()
			}
			if got != test.want || !clean {
				t.Errorf("got %q (clean %t), want %q", got, clean, test.want)
			}
		})
	}
}

// TestOrderReportsExchange: two groups exchange all CPUs, so no order of the writes keeps them apart.
func TestOrderReportsExchange(t *testing.T) {
	a, b := cpuset.Of(0), cpuset.Of(1)
	writes, clean := orderWrites([]move{{"a", a, b}, {"b", b, a}}, a.Union(b))
	if clean || len(writes) != 2 {
		t.Errorf("clean %t, writes %v", clean, writes)
	}
}

// arrangement draws cpusets in which each exclusive CPU belongs to at most one group.
func arrangement(t *rapid.T, label string, groups, cpus int) (sets []cpuset.Set, exclusive cpuset.Set) {
	sets = make([]cpuset.Set, groups)
	for cpu := range cpus {
		switch owner := rapid.IntRange(-2, groups-1).Draw(t, fmt.Sprintf("%s%d", label, cpu)); owner {
		case -2: // in no cgroup
		case -1: // shared by any number of cgroups
			for i := range sets {
				if rapid.Bool().Draw(t, "in") {
					sets[i].Add(cpu)
				}
			}
		default:
			sets[owner].Add(cpu)
			exclusive.Add(cpu)
		}
	}
	return sets, exclusive
}

// TestOrderKeepsExclusive walks every intermediate state of random changes.
func TestOrderKeepsExclusive(t *testing.T) {
	for range 50 {
		rapid.Check(t, walkOrder)
	}
}

func walkOrder(t *rapid.T) {
	groups, cpus := rapid.IntRange(1, 6).Draw(t, "groups"), rapid.IntRange(1, 10).Draw(t, "cpus")
	before, exclusiveBefore := arrangement(t, "before", groups, cpus)
	after, exclusiveAfter := arrangement(t, "after", groups, cpus)
	exclusive := exclusiveBefore.Union(exclusiveAfter)
	moves := make([]move, groups)
	now := map[string]cpuset.Set{}
	var used cpuset.Set
	for i := range moves {
		moves[i] = move{fmt.Sprint("g", i), before[i], after[i]}
		if now[moves[i].group] = before[i]; after[i].IsEmpty() {
			now[moves[i].group] = after[i]
		}
		used = used.Union(before[i]).Union(after[i])
	}
	parking := used.Minus(exclusive)

	writes, clean := orderWrites(moves, exclusive)
	if !clean && !parking.IsEmpty() {
		t.Fatalf("not clean, with %v to park on", parking)
	}
	if len(writes) > 3*groups {
		t.Fatalf("%d writes for %d groups", len(writes), groups)
	}
	for _, w := range writes {
		if w.cpus.IsEmpty() || now[w.group] == w.cpus {
			t.Fatalf("useless or empty write %v", w)
		}
		now[w.group] = w.cpus
		if clean {
			checkExclusive(t, moves, now, exclusive)
		}
	}
	for _, m := range moves {
		if now[m.group] != m.new {
			t.Fatalf("%s ends with %v, want %v", m.group, now[m.group], m.new)
		}
	}
}

// checkExclusive fails if two cgroups share an exclusive CPU that they shared neither before nor after. A CPU that was
// exclusive before and is given to several cgroups by its owner's resize is shared after.
func checkExclusive(t *rapid.T, moves []move, now map[string]cpuset.Set, exclusive cpuset.Set) {
	for i, a := range moves {
		for _, b := range moves[i+1:] {
			both := now[a.group].Intersect(now[b.group]).Intersect(exclusive)
			planned := a.old.Intersect(b.old).Union(a.new.Intersect(b.new))
			if both = both.Minus(planned); !both.IsEmpty() {
				t.Fatalf("%s and %s both have %v", a.group, b.group, both)
			}
		}
	}
}
