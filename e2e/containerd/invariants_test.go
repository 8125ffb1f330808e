package containerd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A fact has the request of a running container and the kernel's settings of it.
type fact struct {
	name           string
	limit, request hybrid.Milli // 0: none
	sensitive      bool
	has            cgroup.Settings
}

// A node has the properties that all containers share.
type node struct {
	usable    cpuset.Set
	minShared hybrid.Milli
}

// broken returns the violated invariants of docs/reference/nri.md. It uses only the kernel's settings: it
// recognizes the fraction of a container by the other containers on the same CPU.
func (n node) broken(facts []fact) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	carried := map[int]hybrid.Milli{} // of the fractions, by CPU
	var sensitive hybrid.Milli
	for i := range facts {
		f := &facts[i]
		if got := f.has.CPUs; got.IsEmpty() || !got.SubsetOf(&n.usable) {
			say("%s has the CPUs %v of %v", f.name, got, n.usable)
		}
		if want := f.quota(); f.has.Quota != want {
			say("%s, limit %v, has a quota of %v, want %v", f.name, f.limit, f.has.Quota, want)
		}
		if !f.sensitive {
			continue
		}
		sensitive += f.limit
		if f.has.CPUs.Count() != f.limit.CPUs() {
			say("%s, limit %v, has the CPUs %v", f.name, f.limit, f.has.CPUs)
		}
		shared := f.shared(facts)
		if most := f.limit.CPUs() - int(f.limit/1000); shared.Count() > most {
			say("%s, limit %v: others run on %v of its CPUs %v", f.name, f.limit, shared, f.has.CPUs)
		} else if !shared.IsEmpty() {
			carried[shared.First()] += f.limit % 1000
		}
	}
	for cpu, sum := range carried {
		if sum > 1000 {
			say("CPU %d carries fractions of %v", cpu, sum)
		}
	}
	guaranteed := n.flexible(facts, carried, say)
	if capacity := hybrid.Milli(1000 * n.usable.Count()); sensitive+max(guaranteed, n.minShared) > capacity {
		say("sensitive containers have %v, flexible ones are guaranteed %v, and there are %v", sensitive, guaranteed, capacity)
	}
	return all
}

// flexible returns the violations of the flexible containers' CPUs, and the sum of their guarantees.
func (n node) flexible(facts []fact, carried map[int]hybrid.Milli, say func(string, ...any)) (guaranteed hybrid.Milli) {
	var one *fact
	for i := range facts {
		f := &facts[i]
		if f.sensitive {
			continue
		}
		guaranteed += f.request
		if one != nil && one.has.CPUs != f.has.CPUs {
			say("%s has the CPUs %v, %s has %v", f.name, f.has.CPUs, one.name, one.has.CPUs)
		}
		one = f
	}
	if one == nil {
		return 0
	}
	left := hybrid.Milli(1000 * one.has.CPUs.Count())
	for cpu := range one.has.CPUs.All() {
		left -= carried[cpu]
	}
	if left < guaranteed {
		say("flexible containers are guaranteed %v and have %v of %v", guaranteed, left, one.has.CPUs)
	}
	return guaranteed
}

// quota returns the quota of a limit per 100 ms, or 0 if the CPUs of a sensitive container enforce the limit alone.
func (f *fact) quota() time.Duration {
	if f.sensitive && f.limit%1000 == 0 {
		return 0
	}
	return time.Duration(f.limit) * 100 * time.Microsecond
}

// shared returns the CPUs of a container that other containers have too.
func (f *fact) shared(facts []fact) (shared cpuset.Set) {
	for i := range facts {
		if other := &facts[i]; other != f {
			shared = shared.Union(f.has.CPUs.Intersect(other.has.CPUs))
		}
	}
	return shared
}

// TestBrokenInvariants: the checker finds each violated invariant.
func TestBrokenInvariants(t *testing.T) {
	of := func(name string, limit, request hybrid.Milli, sensitive bool, cpus ...int) fact {
		f := fact{name: name, limit: limit, request: request, sensitive: sensitive}
		f.has.CPUs, f.has.Quota = cpuset.Of(cpus...), f.quota()
		return f
	}
	wrongQuota := of("a", 500, 500, true, 0)
	wrongQuota.has.Quota = time.Millisecond
	for _, test := range []struct {
		facts []fact
		want  string // "": nothing is wrong
	}{
		{nil, ""},
		{[]fact{of("a", 1500, 0, true, 0, 1), of("b", 500, 0, true, 1), of("c", 0, 1000, false, 2, 3), of("d", 100, 0, false, 2, 3)}, ""},
		{[]fact{of("a", 1500, 0, true, 0, 1), of("c", 0, 2500, false, 1, 2, 3)}, ""},
		{[]fact{of("a", 1500, 0, true, 0, 1), of("c", 0, 2501, false, 1, 2, 3)}, "are guaranteed 2501m and have 2500m"},
		{[]fact{of("a", 1500, 0, true, 0)}, "a, limit 1500m, has the CPUs 0"},
		{[]fact{of("a", 1000, 0, true, 0), of("b", 0, 0, false, 0, 1)}, "others run on 0"},
		{[]fact{of("a", 1000, 0, true, 0), of("b", 1000, 0, true, 0)}, "others run on 0"},
		{[]fact{of("a", 1500, 0, true, 0, 1), of("b", 0, 0, false, 0, 1)}, "others run on 0-1"},
		{[]fact{of("a", 600, 0, true, 0), of("b", 500, 0, true, 0)}, "CPU 0 carries fractions of 1100m"},
		{[]fact{of("a", 0, 0, false, 0), of("b", 0, 0, false, 1)}, "b has the CPUs 1, a has 0"},
		{[]fact{of("a", 0, 0, false)}, "a has the CPUs"},
		{[]fact{of("a", 0, 0, false, 4)}, "a has the CPUs 4 of 0-3"},
		{[]fact{of("a", 3000, 0, true, 0, 1, 2), of("b", 1000, 0, true, 3)}, "and there are 4"},
		{[]fact{wrongQuota}, "has a quota of 1ms, want 50ms"},
	} {
		got := strings.Join(node{cpuset.Of(0, 1, 2, 3), 100}.broken(test.facts), "\n")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%v\nis %q, want %q", test.facts, got, test.want)
		}
	}
}
