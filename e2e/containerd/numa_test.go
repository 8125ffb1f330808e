package containerd

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// A topologyContainer is a container with a topology policy, and the expected content of the kernel's files.
type topologyContainer struct {
	class, policy string
	within        []cpuset.Set // sets of CPUs; all its CPUs are in one of them
	ownMems       bool         // its memory is on its NUMA node; otherwise on any node
	cpuMax        string
	cpuWeight     string
	*container
}

// kept checks the container's files on cgroup v2, and the CPU counts that the container sees.
func (w *topologyContainer) kept(m *topology.Machine) {
	w.Helper()
	cpus := cpuset.MustParse(w.file("cpuset.cpus.effective"))
	one := false
	for _, domain := range w.within {
		one = one || cpus.SubsetOf(&domain)
	}
	if !one {
		w.Errorf("%s has the topology policy %s and the CPUs %v", w.name, w.policy, cpus)
	}
	mems := "0-3"
	if w.ownMems {
		mems = strconv.Itoa(m.Nodes[m.CPU(cpus.First()).Node].ID)
	}
	for name, want := range map[string]string{"cpu.max": w.cpuMax, "cpu.weight": w.cpuWeight, "cpuset.mems.effective": mems} {
		if got := w.file(name); got != want {
			w.Errorf("%s, limit %v on %v: %s is %s, want %s", w.name, w.limit, cpus, name, got, want)
		}
	}
	if w.sensitive {
		w.sees()
	}
}

// file reads a file of the container's group.
func (c *container) file(name string) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", c.parent, c.pod.name, c.id, name))
	if err != nil {
		c.Error(err)
	}
	return strings.TrimSpace(string(text))
}

// The containers on a machine with several NUMA nodes.
type numa struct {
	*lab
	machine *topology.Machine
	all     map[string]*topologyContainer
}

// newNUMA starts a container for each topology policy, in this order.
func newNUMA(t *testing.T) *numa {
	t.Helper()
	m, err := topology.ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil || len(m.Nodes) != 4 || m.Online.Count() != 16 {
		t.Skip("needs 16 CPUs, 4 NUMA nodes and cgroup v2: make test-guest boots such a machine")
	}
	domains := func(of []topology.Domain) (sets []cpuset.Set) {
		for _, d := range of {
			sets = append(sets, d.CPUs)
		}
		return sets
	}
	var nodes []cpuset.Set
	for _, n := range m.Nodes {
		nodes = append(nodes, n.CPUs)
	}
	n := &numa{newLab(t), m, map[string]*topologyContainer{}}
	n.start("log", 0, &topologyContainer{class: "flexible", policy: "none", within: []cpuset.Set{m.Online}, cpuMax: "max 100000", cpuWeight: "1"})
	n.start("near", 500, &topologyContainer{class: "flexible", policy: "single-numa", within: nodes, cpuMax: "50000 100000", cpuWeight: "50"})
	n.start("half", 1500, &topologyContainer{class: "sensitive", policy: "single-l3", within: domains(m.L3s), cpuMax: "150000 100000", cpuWeight: "100"})
	n.start("pair", 2000, &topologyContainer{class: "sensitive", policy: "whole-cores", within: domains(m.Cores), cpuMax: "max 100000", cpuWeight: "200"})
	n.start("wide", 3500, &topologyContainer{class: "sensitive", policy: "single-numa", within: nodes, ownMems: true, cpuMax: "350000 100000", cpuWeight: "200"})
	return n
}

// start starts a container in a new pod.
func (n *numa) start(name string, limit hybrid.Milli, w *topologyContainer) {
	n.Helper()
	p := must[*pod](n)(n.newPod(limit, limit, map[string]string{"candor.dev/class": w.class, "candor.dev/topology": w.policy}))
	w.container = must[*container](n)(p.run(name, limit, limit, w.class == "sensitive"))
	n.all[name] = w
}

// look checks all containers.
func (n *numa) look() {
	n.Helper()
	var facts []fact
	pair := n.all["pair"].cpus()
	for name, w := range n.all {
		w.kept(n.machine)
		has := must[cgroup.Settings](n)(w.has())
		if has.CPUs.Overlaps(&pair) && name != "pair" {
			n.Errorf("%s has the CPUs %v, of which %v are the core of pair", name, has.CPUs, pair)
		}
		if name != "near" { // flexible containers without a topology policy have the same CPUs
			facts = append(facts, fact{name, w.limit, w.request, w.sensitive, has})
		}
	}
	for _, broken := range (node{n.machine.Online, 100}).broken(facts) {
		n.Error(broken)
	}
}

// cpus returns the CPUs of all containers in the kernel.
func (n *numa) cpus() map[string]cpuset.Set {
	n.Helper()
	all := map[string]cpuset.Set{}
	for name, w := range n.all {
		all[name] = w.cpus()
	}
	return all
}

// TestNUMA: topology policies hold on a machine with several NUMA nodes, also after a kill of the plugin and
// after a resize. e2e/guest boots such a machine.
func TestNUMA(t *testing.T) {
	n := newNUMA(t)
	n.look()
	before := n.cpus()
	n.plugin.kill()
	n.startPlugin()
	if now := n.cpus(); !maps.Equal(now, before) {
		t.Errorf("the plugin was killed: the CPUs were %v and are %v", before, now)
	}
	n.look()

	half, wide := n.all["half"], n.all["wide"]
	for _, r := range []struct {
		*topologyContainer
		limit             hybrid.Milli
		cpuMax, cpuWeight string // "": it is refused
	}{
		{half, 500, "50000 100000", "50"},
		{wide, 4500, "", ""}, // a node has 4 CPUs
		{wide, 4000, "max 100000", "400"},
		{wide, 2500, "250000 100000", "150"},
	} {
		err := r.resize(r.limit)
		switch {
		case r.cpuMax == "":
			if err == nil || !strings.Contains(err.Error(), "candor: container default/"+r.pod.name+"/"+r.name+": ") {
				t.Errorf("%s to %v: %v", r.name, r.limit, err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			r.topologyContainer.cpuMax, r.topologyContainer.cpuWeight = r.cpuMax, r.cpuWeight
		}
		r.kept(n.machine)
	}
	n.look()

	for _, w := range n.all {
		if w.policy != "none" {
			if err := w.pod.remove(); err != nil {
				t.Error(err)
			}
		}
	}
	if got := n.all["log"].cpus(); got != n.machine.Online {
		t.Errorf("alone, log has %v", got)
	}
}
