package cgroup

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
)

// BenchmarkSetCPUs moves a group with a process from one CPU to another.
func BenchmarkSetCPUs(b *testing.B) {
	for name, nested := range map[string][]string{"alone": nil, "nested": {"engine/one", "engine/two"}} {
		b.Run(name, func(b *testing.B) {
			tr := tree(b)
			one, two := two(b, tr)
			g, pid := group(b, tr, "web", Settings{CPUs: one}, "sleep")
			for _, path := range nested {
				dir := nest(b, g, path, cpuset.Set{})
				if tr.cpuset != tr.cpu {
					must(b, attach(dir, pid))
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				must(b, g.SetCPUs([]cpuset.Set{two, one}[i%2], cpuset.Set{}))
			}
		})
	}
}

// BenchmarkSetCPUsAmong takes a CPU from an engine's group and returns it. The other groups have no
// processes.
func BenchmarkSetCPUsAmong(b *testing.B) {
	for _, others := range []int{10, 250} {
		b.Run(strconv.Itoa(others), func(b *testing.B) {
			tr := tree(b)
			one, two := two(b, tr)
			g, pid := group(b, tr, "web", Settings{CPUs: one}, "sleep")
			for i := range others {
				must(b, tr.Group(fmt.Sprint("other", i)).Create(Settings{CPUs: one.Union(two)}, pid))
			}
			must(b, g.Enter(pid))
			g = tr.EngineGroup("web", g.dir(tr.cpuset)[len(tr.cpuset.mount):])
			keepOpen(tr, 10)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				must(b, g.SetCPUs([]cpuset.Set{one.Union(two), one}[i%2], cpuset.Set{}))
			}
		})
	}
}

// BenchmarkApply applies equal settings, settings with other CPUs, and settings that differ in all values.
func BenchmarkApply(b *testing.B) {
	tr := tree(b)
	one, two := two(b, tr)
	base := Settings{CPUs: one, Quota: 50 * time.Millisecond}
	cpus, all := base, Settings{CPUs: two, Quota: 70 * time.Millisecond, Burst: 10 * time.Millisecond, Weight: 2000}
	cpus.CPUs = two
	g, _ := group(b, tr, "web", base, "sleep")
	for name, other := range map[string]Settings{"equal": base, "cpus": cpus, "all": all} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				must(b, g.Apply([]Settings{other, base}[i%2]))
			}
		})
	}
}
