package bench

import (
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// An allocator allocates CPUs to a container and releases them.
type allocator interface {
	allocate() error
	release() error
	holds() cpuset.Set // the container's CPUs
	free() cpuset.Set  // the CPUs that no container has exclusively
	state() any        // the complete state, for comparison
}

// A scene is a machine with containers on some of its CPUs.
type scene struct {
	name    string
	machine *topology.Machine
	held    []cpuset.Set // 4 CPUs each
}

// scenes returns machines with containers of 4 CPUs on half of their CPUs.
func scenes(t testing.TB) []scene {
	twoSockets := parse(t, "pack:2 numa:1 l3:1 core:32 pu:2")
	eightNodes := parse(t, "pack:2 numa:4 l3:2 core:4 pu:2")
	large := parse(t, "pack:2 numa:4 l3:4 core:8 pu:2")
	return []scene{
		{"half", twoSockets, pairsOfCores(twoSockets)},
		{"fragmented", twoSockets, firstThreads(twoSockets)},
		{"8-numa-nodes", eightNodes, pairsOfCores(eightNodes)},
		{"512-cpus", large, pairsOfCores(large)},
	}
}

func parse(t testing.TB, description string) *topology.Machine {
	m, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pairsOfCores returns the first half of the cores in pairs. Both allocators allocate these to consecutive
// containers.
func pairsOfCores(m *topology.Machine) (held []cpuset.Set) {
	for i := 0; i < len(m.Cores)/2; i += 2 {
		held = append(held, m.Cores[i].CPUs.Union(m.Cores[i+1].CPUs))
	}
	return held
}

// firstThreads returns the first threads of all cores in groups of four.
func firstThreads(m *topology.Machine) (held []cpuset.Set) {
	for i := 0; i < len(m.Cores); i += 4 {
		held = append(held, cpuset.Range(i, i+3))
	}
	return held
}

var allocators = []struct {
	name string
	make func(testing.TB, scene, hybrid.Milli) allocator
}{
	{"candor", newCandor},
	{"kubelet-static", newKubelet},
}

// BenchmarkRoundTrip measures the allocation and the release of a container of 4 CPUs, both in memory. For
// candor it also measures a container of 3500m, which gets no exclusive CPUs from kubelet.
func BenchmarkRoundTrip(b *testing.B) {
	for _, s := range scenes(b) {
		for _, by := range allocators {
			b.Run(s.name+"/by="+by.name, func(b *testing.B) { roundTrips(b, by.make(b, s, 4000)) })
		}
	}
	half := scenes(b)[0]
	b.Run("half-3500m/by=candor", func(b *testing.B) { roundTrips(b, newCandor(b, half, 3500)) })
}

func roundTrips(b *testing.B, a allocator) {
	giveAndTake(b, a)
	b.ReportAllocs()
	for b.Loop() {
		if err := a.allocate(); err != nil {
			b.Fatal(err)
		}
		if err := a.release(); err != nil {
			b.Fatal(err)
		}
	}
	giveAndTake(b, a)
}

// giveAndTake allocates and releases the container. It checks that the container gets 4 free CPUs, which it
// returns, and that the release restores the state.
func giveAndTake(t testing.TB, a allocator) (given cpuset.Set) {
	t.Helper()
	before, free := a.state(), a.free()
	if err := a.allocate(); err != nil {
		t.Fatal(err)
	}
	given = a.holds()
	left := a.free()
	if given.Count() != 4 || !given.SubsetOf(&free) || left != free.Minus(given) {
		t.Fatalf("free CPUs %v: got %v, and %v remain", free, given, left)
	}
	if err := a.release(); err != nil {
		t.Fatal(err)
	}
	if after := a.state(); !reflect.DeepEqual(before, after) {
		t.Fatalf("not as before: %v, was %v", after, before)
	}
	return given
}

// TestSameWork: both allocators do the same work. They start with the same free CPUs, and allocate and
// release the same 4 CPUs.
func TestSameWork(t *testing.T) {
	for _, s := range scenes(t) {
		free := s.machine.Online
		for _, cpus := range s.held {
			free.RemoveAll(&cpus)
		}
		if want := s.machine.Online.Count() / 2; free.Count() != want {
			t.Fatalf("%s: %d CPUs are free, want %d", s.name, free.Count(), want)
		}
		var first cpuset.Set
		for i, by := range allocators {
			a := by.make(t, s, 4000)
			if a.free() != free {
				t.Errorf("%s: for %s %v are free, want %v", s.name, by.name, a.free(), free)
			}
			given := giveAndTake(t, a)
			t.Logf("%s: %s gives %v", s.name, by.name, given)
			if i == 0 {
				first = given
			} else if given != first {
				t.Errorf("%s: %s gives %v, %s gives %v: docs/benchmarks/allocator.md requires equal choices", s.name, by.name, given, allocators[0].name, first)
			}
		}
	}
}

// TestFirstHalf: both allocators produce the scenes if they place the containers in sequence. The scene
// "fragmented" is an exception.
func TestFirstHalf(t *testing.T) {
	for _, s := range scenes(t) {
		if s.name == "fragmented" {
			continue
		}
		for _, by := range allocators {
			empty := scene{s.name, s.machine, nil}
			for range s.held {
				a := by.make(t, empty, 4000)
				empty.held = append(empty.held, giveAndTake(t, a))
			}
			if !reflect.DeepEqual(empty.held, s.held) {
				t.Errorf("%s: %s gives %v, want %v", s.name, by.name, empty.held, s.held)
			}
		}
	}
}

// TestFractionNotComparable: kubelet allocates no exclusive CPUs to a container of 3500m, so the benchmark
// cannot compare this case.
func TestFractionNotComparable(t *testing.T) {
	k := newKubelet(t, scenes(t)[0], 3500)
	before := k.state()
	if err := k.allocate(); err != nil {
		t.Fatal(err)
	}
	if after := k.state(); !reflect.DeepEqual(before, after) {
		t.Errorf("a container of 3500m changed kubelet's state: the benchmark can have it too")
	}
	giveAndTake(t, newCandor(t, scenes(t)[0], 3500))
}

// TestMain runs -count N as N rounds through all benchmarks. By default, Go runs each benchmark N times in
// sequence; a disturbance of the machine would then affect a single allocator.
func TestMain(m *testing.M) {
	flag.Parse()
	count := flag.Lookup("test.count").Value.(flag.Getter).Get().(uint)
	if flag.Lookup("test.bench").Value.String() == "" || count < 2 {
		os.Exit(m.Run())
	}
	flag.Set("test.count", "1")
	code := 0
	for range count {
		code = max(code, m.Run())
		flag.Set("test.run", "^$") // the tests need one round only
	}
	os.Exit(code)
}
