package top

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/topology"
	"github.com/candor-project/candor/view"
)

const second = time.Second

// world is a fake machine whose counters grow.
type world struct {
	testing.TB
	node *hybrid.Node
	tags cpumap.Tags
	Reading
}

// newWorld returns a machine without containers. description is in hwloc's notation.
func newWorld(t testing.TB, description string) *world {
	t.Helper()
	machine, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	node, err := hybrid.NewNode(machine, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, node: node}
	w.At = time.Unix(1000, 0)
	w.CPUs = map[int]procfs.CPUTime{}
	for cpu := range machine.Online.All() {
		w.CPUs[cpu] = procfs.CPUTime{}
	}
	return w
}

// add starts a container. A name with slashes is the name of a container of a pod.
func (w *world) add(name string, class hybrid.Class, limit hybrid.Milli) *Container {
	w.Helper()
	id := name
	c := Container{Grant: host.Grant{State: host.Running}, At: w.At}
	if podname.Parse(name) != (podname.Name{}) {
		id = fmt.Sprintf("c-%d", len(w.Containers))
		c.Engine.Name = name
	}
	plan, err := w.node.Plan(hybrid.Request{ID: id, Class: class, Limit: limit, Policy: hybrid.BestEffort})
	if err == nil {
		err = w.node.Commit(plan)
	}
	if err != nil {
		w.Fatal(err)
	}
	c.Grant.Grant, _ = w.node.Grant(id)
	c.Exists, c.Processes = true, []int{100 + len(w.Containers)}
	c.SeenCPUs = view.Summary{Affinity: c.CPUs.Count(), Files: c.CPUs.Count()}
	if class == hybrid.Flexible { // without a mounted view
		machine := w.node.Machine()
		c.SeenCPUs.Files = machine.Online.Count()
	}
	c.Settings = cgroup.Settings{CPUs: c.CPUs, Quota: 150 * time.Millisecond, Period: 100 * time.Millisecond, Weight: 1000}
	w.Containers = append(w.Containers, c)
	return &w.Containers[len(w.Containers)-1]
}

// read returns a reading that later changes of the world do not affect.
func (w *world) read(string) (*Reading, error) {
	r := w.Reading
	r.CPUs = map[int]procfs.CPUTime{}
	maps.Copy(r.CPUs, w.CPUs)
	r.Containers = append([]Container(nil), w.Containers...)
	r.Map = cpumap.FromNode(w.node)
	r.Map.Tags, r.Map.Names = &w.tags, map[string]podname.Name{}
	for i := range r.Containers {
		c := &r.Containers[i]
		c.At, c.ThreadsAt = w.At, w.At
		c.Grant.Grant, _ = w.node.Grant(c.ID)
		r.Map.Names[c.ID] = c.Engine.DisplayName()
	}
	return &r, nil
}

func (w *world) now() *Reading {
	r, _ := w.read("")
	return r
}

// pass advances the time by d. CPU n is busy for n modulo 5 quarters of d.
func (w *world) pass(d time.Duration) {
	w.At = w.At.Add(d)
	for cpu, t := range w.CPUs {
		busy := d * time.Duration(cpu%5) / 4
		t.Programs += busy
		t.Idle += d - busy
		w.CPUs[cpu] = t
	}
}

// container returns the container with an ID.
func (w *world) container(id string) *Container { return w.Reading.container(id) }

// uses adds CPU time, periods and throttled periods to the counters of a container.
func (c *Container) uses(cpu time.Duration, periods, throttled uint64) {
	c.Stat.CPU += cpu
	c.Stat.Periods += periods
	c.Stat.Throttled += throttled
}

// small returns two readings, a second apart, of four CPUs with two containers of a pod and a program.
func small(t testing.TB) (before, after *Reading) {
	w := newWorld(t, "core:4 pu:1")
	w.add("default/web-0/app", hybrid.Sensitive, 1500)
	w.add("default/web-0/log", hybrid.Flexible, 500)
	w.add("backup", hybrid.Flexible, 0)
	before = w.now()
	w.pass(second)
	w.Containers[0].uses(1200*time.Millisecond, 10, 3)
	w.Containers[1].uses(250*time.Millisecond, 10, 0)
	w.Containers[2].uses(900*time.Millisecond, 0, 0)
	return before, w.now()
}
