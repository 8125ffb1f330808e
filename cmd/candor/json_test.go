package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/top"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/topology"
	"github.com/candor-project/candor/view"
)

// exampleMachine is the machine of docs/reference/json.md. It has four CPUs, a sensitive program, and a flexible
// container of a pod.
type exampleMachine struct {
	*host.Snapshot
	states []*host.ContainerState
	rows   []grantRow
	report *inspection
}

// example returns the machine of docs/reference/json.md, with its rows and its inspection.
func example(t *testing.T) *exampleMachine {
	t.Helper()
	machine, err := topology.Parse("core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	node, err := hybrid.NewNode(machine, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	requests := []hybrid.Request{
		{ID: "web", Limit: 1500, Topology: hybrid.SingleNUMA},
		{ID: "shop-0.log-bdc150ce", Class: hybrid.Flexible, Limit: 2000, Guarantee: 250},
	}
	e := &exampleMachine{Snapshot: &host.Snapshot{Node: node, Now: 3 * time.Minute}}
	for i, request := range requests {
		plan, err := node.Plan(request)
		if err == nil {
			err = node.Commit(plan)
		}
		if err != nil {
			t.Fatal(err)
		}
		g := host.Grant{
			State: host.Running, Main: host.Process{PID: 4711 + i}, Since: time.Minute,
			Spec: spec.Spec{Period: 100 * time.Millisecond, View: spec.ViewFull, OnResize: "none", Command: "sleep 600"},
		}
		g.Grant, _ = node.Grant(request.ID)
		g.Weight = 1000 // the page does not explain weights
		if g.Class == hybrid.Flexible {
			g.Engine.Name, g.Main = "default/shop-0/log", host.Process{}
			g.Command = "tail -F /var/log/shop"
		}
		state := &host.ContainerState{
			Exists: true, Processes: []int{4711 + i},
			Settings: cgroup.Settings{CPUs: g.CPUs, Mems: cpuset.Of(0), Quota: 150 * time.Millisecond, Period: 100 * time.Millisecond, Weight: 1000},
			Stat:     cgroup.Stat{Usage: cgroup.Usage{CPU: 12345 * time.Millisecond, Periods: 600, Throttled: 7, ThrottledTime: 210 * time.Millisecond}},
		}
		e.Grants, e.states = append(e.Grants, g), append(e.states, state)
		seen := exampleObservation(g.ID, g.CPUs)
		row := newGrantRow(&g, state, e.Now)
		row.see(&seen)
		e.rows = append(e.rows, row)
		if e.report == nil {
			e.report = newInspection(&g, state, e.Now)
			e.report.see(&seen)
			e.report.Strangers = foreignUsesOf(&g, map[int]float64{0: 0.03})
		}
	}
	return e
}

// exampleObservation returns the observation of a container with a view.
func exampleObservation(name string, cpus cpuset.Set) (o host.Observation) {
	for _, s := range []view.Source{
		{Name: view.SourceAffinity, Role: view.Reported}, {Name: "/sys/devices/system/cpu/online", Role: view.Reported, Masked: true},
		{Name: "/proc/cpuinfo", Role: view.Reported, Masked: true}, {Name: "/proc/stat", Role: view.Machine},
	} {
		s.CPUs = cpus
		if s.Role == view.Machine {
			s.CPUs = cpuset.MustParse("0-3")
		}
		s.Count = s.CPUs.Count()
		o.Sources = append(o.Sources, s)
	}
	o.View, o.SeenView = name, spec.ViewFull
	return o
}

// seen returns the CPU counts that the containers see.
func (e *exampleMachine) seen() map[string]view.Summary {
	all := map[string]view.Summary{}
	for _, row := range e.rows {
		all[row.ID] = row.Summary
	}
	return all
}

// figures returns the figures of candor top for the last second of the example.
func (e *exampleMachine) figures() *top.Figures {
	began := time.Unix(0, 0)
	before := &top.Reading{At: began, CPUs: map[int]procfs.CPUTime{0: {}, 1: {}, 2: {}, 3: {}}}
	after := &top.Reading{At: began.Add(time.Second), Map: cpumap.FromNode(e.Node), CPUs: map[int]procfs.CPUTime{}}
	after.Map.Names = e.DisplayNames()
	for cpu := range before.CPUs {
		busy := time.Duration(cpu) * time.Second / 4
		after.CPUs[cpu] = procfs.CPUTime{Programs: busy, Idle: time.Second - busy}
	}
	for i := range e.Grants {
		c := top.Container{Grant: e.Grants[i], ContainerState: *e.states[i], At: began, SeenCPUs: e.rows[i].Summary}
		before.Containers = append(before.Containers, c)
		c.At = began.Add(time.Second)
		c.Stat.CPU += 600 * time.Millisecond
		c.Stat.Periods += 10
		c.Stat.Throttled++
		after.Containers = append(after.Containers, c)
	}
	return top.Between(before, after, "")
}

// TestJSONShapes: docs/reference/json.md shows the output of the commands. go test -update rewrites the page.
func TestJSONShapes(t *testing.T) {
	e := example(t)
	m := cpumap.FromNode(e.Node)
	m.Names, m.ForeignUses, m.SeenCPUs = e.DisplayNames(), e.report.Strangers, e.seen()
	shown := map[string]string{}
	write := func(command string, do func(*bytes.Buffer) error) {
		var raw, text bytes.Buffer
		if err := do(&raw); err != nil {
			t.Fatal(err)
		}
		if err := json.Indent(&text, bytes.TrimSpace(raw.Bytes()), "", "  "); err != nil {
			t.Fatal(err)
		}
		shown[command] = text.String() + "\n"
		if strings.Contains(text.String(), "null") {
			t.Errorf("%s writes null:\n%s", command, &text)
		}
	}
	write("candor ps -o json", func(b *bytes.Buffer) error { return writeJSON(b, e.rows) })
	write("candor inspect web -o json", func(b *bytes.Buffer) error { return writeJSON(b, e.report) })
	write("candor map -o json", func(b *bytes.Buffer) error { return m.JSON(b) })
	write("candor top -o json | jq .", func(b *bytes.Buffer) error { return new(top.UI{Sort: top.ByUse}).JSON(b, e.figures()) })

	const page = "../../docs/reference/json.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	now := string(text)
	for command, want := range shown {
		block := regexp.MustCompile("(?s)```\n# " + regexp.QuoteMeta(command) + "\n.*?```")
		if !block.MatchString(now) {
			t.Errorf("docs/reference/json.md has no block that starts with # %s", command)
		}
		now = block.ReplaceAllLiteralString(now, "```\n# "+command+"\n"+want+"```")
	}
	if now != string(text) && !*update {
		t.Errorf("docs/reference/json.md differs from the output of candor (go test -update rewrites it):\n%s", now)
	}
	if now != string(text) && *update {
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJSONEmpty: an empty list or object is written as [] or {}, never as null. Empty optional fields are
// omitted.
func TestJSONEmpty(t *testing.T) {
	g := host.Grant{State: host.Running}
	g.ID, g.Class = "log", hybrid.Flexible
	var b bytes.Buffer
	if err := writeJSON(&b, newInspection(&g, &host.ContainerState{}, 0)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{`"pids": []`: true, "null": false, `"group"`: false, `"fractionsMilli"`: false, `"quotaMilli"`: false, `"strangers"`: false} {
		if strings.Contains(b.String(), text) != want {
			t.Errorf("%s: want %t in\n%s", text, want, &b)
		}
	}
}

// TestState: the state in ps depends on the phase of the container, its processes, lost CPUs and its topology
// policy.
func TestState(t *testing.T) {
	alive := host.Grant{State: host.Running}
	alive.TopologyMet = true
	lost, moved, lax, over, held := alive, alive, alive, alive, alive
	lost.Lost = cpuset.Of(3)
	moved.Class, moved.Topology, moved.TopologyMet = hybrid.Flexible, hybrid.SingleNUMA, false // its NUMA node is offline
	lax.Policy, lax.TopologyMet = hybrid.BestEffort, false
	held.State = host.Held
	for _, c := range []struct {
		g    *host.Grant
		pids []int
		want string
	}{{&alive, []int{1}, "running"}, {&lost, []int{1}, "degraded"}, {&moved, []int{1}, "degraded"}, {&lax, []int{1}, "running"},
		{&over, nil, "ended"}, {&held, nil, "held"}} {
		if row := newGrantRow(c.g, &host.ContainerState{Processes: c.pids}, 0); row.State != c.want {
			t.Errorf("%+v: %s, want %s", c.g, row.State, c.want)
		}
	}
	var b strings.Builder
	if err := writeInspection(&b, newInspection(&moved, &host.ContainerState{}, 0)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "single-numa: its CPUs are not so") {
		t.Errorf("inspect does not show that the topology policy is not met:\n%s", &b)
	}
	b.Reset()
	if err := writeInspection(&b, newInspection(&lost, &host.ContainerState{}, 0)); err != nil || !strings.Contains(b.String(), "CPU 3: the machine has none") {
		t.Errorf("inspect does not show the lost CPUs: %v\n%s", err, &b)
	}
}

// TestRowRequest: the field request in ps and inspect is the guarantee of the container, or 0 if a flexible
// container has none.
func TestRowRequest(t *testing.T) {
	for _, c := range []struct {
		request hybrid.Request
		want    hybrid.Milli
	}{
		{hybrid.Request{Limit: 1500}, 1500},
		{hybrid.Request{Class: hybrid.Flexible, Limit: 2000}, 2000},
		{hybrid.Request{Class: hybrid.Flexible, Limit: 2000, Guarantee: 250}, 250},
		{hybrid.Request{Class: hybrid.Flexible, Limit: 2000, Guarantee: hybrid.NoGuarantee}, 0},
		{hybrid.Request{Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee}, 0},
		{hybrid.Request{Class: hybrid.Flexible}, 0},
	} {
		g := host.Grant{Grant: hybrid.Grant{Request: c.request}}
		if row := newGrantRow(&g, &host.ContainerState{}, 0); row.Request != c.want {
			t.Errorf("%+v: request %v, want %v", c.request, row.Request, c.want)
		}
	}
}

// TestNameFields: a foreign container and a row of audit and ledger have the same fields for the name as a container of Candor.
func TestNameFields(t *testing.T) {
	c := audit.Container{Name: "default/web/app", ID: "0123"}
	rows := auditRows([]audit.Container{c}, true, nil)
	report := ledgerReport{Containers: []ledgerRow{{Name: c.Name, ID: c.ID}}}
	for name, value := range map[string]any{"audit": rows[0], "ledger": report.document().Containers[0]} {
		text, err := json.Marshal(value)
		if want := `"name":"default/web/app","namespace":"default","pod":"web","container":"app","id":"0123"`; err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %s; want %s", name, err, text, want)
		}
	}
}
