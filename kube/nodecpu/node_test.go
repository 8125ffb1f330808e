package nodecpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// TestRoundTrip: a node that is restored from a report equals the reporting node, and returns the same
// results for further operations.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMachine(rt)
		o := drawOptions(rt, m)
		if _, err := hybrid.NewNode(m, o); err != nil {
			rt.Skip(err)
		}
		source := newNode(rt, m, o)
		for i := range rapid.IntRange(0, 25).Draw(rt, "operations") {
			release, r := drawStep(rt, source, i)
			step(rt, source, release, r)
		}
		reported := report(rt, source)
		restored, err := Node(reported)
		if err != nil {
			rt.Fatalf("%v\n%s", err, text(source))
		}
		if again := report(rt, restored); fmt.Sprint(again) != fmt.Sprint(reported) {
			rt.Fatalf("report of the source\n%+v\nreport of the restored node\n%+v", reported, again)
		}
		for i := range 8 {
			release, r := drawStep(rt, source, 100+i)
			if got, want := step(rt, restored, release, r), step(rt, source, release, r); got != want {
				rt.Fatalf("release %v %+v\nrestored node %s\nsource %s\nreport %+v", release, r, got, want, reported)
			}
		}
	})
}

// TestLost: a grant lost a CPU that went offline. The report and the restored node contain the lost CPU.
func TestLost(t *testing.T) {
	requests := []hybrid.Request{{ID: uid(1) + "/web", Limit: 2000}, {ID: uid(2) + "/db", Limit: 1500}}
	before := newNode(t, parse(t, "core:4 pu:1"), hybrid.Options{}, requests...)
	m := parse(t, "core:3 pu:1")
	m.Offline.Add(3)
	m.CPUs = append(m.CPUs, m.CPUs[0])
	m.CPUs[3].ID, m.CPUs[3].Online = 3, false
	m.CPUs[3].Socket, m.CPUs[3].Node, m.CPUs[3].L3, m.CPUs[3].Core = -1, -1, -1, -1
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	source := newNode(t, m, hybrid.Options{})
	if err := source.Restore(before.Grants()); err != nil {
		t.Fatal(err)
	}
	restored, err := Node(report(t, source))
	if err != nil {
		t.Fatal(err)
	}
	if text(restored) != text(source) || !strings.Contains(text(source), "Lost:3") {
		t.Errorf("restored node %s\nsource %s", text(restored), text(source))
	}
}

// TestInvalidReports: Node refuses a report that no agent writes, with an error of a single line.
func TestInvalidReports(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.NodeCPUStatus){
		"has given":                   func(s *v1alpha1.NodeCPUStatus) { s.Phase = v1alpha1.GivenBack },
		"no report yet: Candor gives": func(s *v1alpha1.NodeCPUStatus) { s.Phase = v1alpha1.GivingBack },
		"no report yet":               func(s *v1alpha1.NodeCPUStatus) { *s = v1alpha1.NodeCPUStatus{} },
		"machine: no online CPU":      func(s *v1alpha1.NodeCPUStatus) { s.Machine.Online = "" },
		"machine: online: CPU list":   func(s *v1alpha1.NodeCPUStatus) { s.Machine.Online = "0-9999" },
		"are in no socket": func(s *v1alpha1.NodeCPUStatus) {
			s.Machine.Cores = ""
			s.Machine.Sockets = "0-7"
			s.Machine.Online = "0-8"
		},
		"its own entry has 1":                      func(s *v1alpha1.NodeCPUStatus) { s.Machine.Cores = "0,4 0,5" },
		"has 0 distances to 1 nodes":               func(s *v1alpha1.NodeCPUStatus) { s.Machine.NUMANodes[0].Distances = nil },
		"distance 256: the maximum is 255":         func(s *v1alpha1.NodeCPUStatus) { s.Machine.NUMANodes[0].Distances[0] = 256 },
		"machine: speeds:":                         func(s *v1alpha1.NodeCPUStatus) { s.Machine.Speeds = "0-3:fast" },
		"machine: cores: 2000 sets":                func(s *v1alpha1.NodeCPUStatus) { s.Machine.Cores = strings.Repeat("0 ", 2000) },
		`algorithm "best": must be one of`:         func(s *v1alpha1.NodeCPUStatus) { s.Algorithm = "best" },
		`algorithm ""`:                             func(s *v1alpha1.NodeCPUStatus) { s.Algorithm = "" },
		"minShared: CPU amount":                    func(s *v1alpha1.NodeCPUStatus) { s.MinShared = "-1" },
		"min-shared 9000m":                         func(s *v1alpha1.NodeCPUStatus) { s.MinShared = "9" },
		"usable: no CPU":                           func(s *v1alpha1.NodeCPUStatus) { s.Usable = "" },
		"usable: CPUs 8 are not online":            func(s *v1alpha1.NodeCPUStatus) { s.Usable = "0-8" },
		"usable: CPUs 0 are reserved":              func(s *v1alpha1.NodeCPUStatus) { s.Reserved = "0" },
		`fingerprint "0"`:                          func(s *v1alpha1.NodeCPUStatus) { s.Fingerprint = "0" },
		`pools: exclusive CPUs "0": by its grants`: func(s *v1alpha1.NodeCPUStatus) { s.Pools.Exclusive = "0" },
		"pools: shared: CPU list":                  func(s *v1alpha1.NodeCPUStatus) { s.Pools.Shared = "x" },
		"grant 0 (\"web\"): pod":                   func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Pod = "a/b" },
		"the name of a container is required":      func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Container = "" },
		"a container with this id is on the node":  func(s *v1alpha1.NodeCPUStatus) { s.Grants[1] = s.Grants[0] },
		`class "best": must be one of`:             func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Class = "best" },
		`policy "hard"`:                            func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Policy = "hard" },
		`topology "near"`:                          func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Topology = "near" },
		"limit: CPU amount":                        func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Limit = "1e9" },
		"a sensitive container needs a limit": func(s *v1alpha1.NodeCPUStatus) {
			s.Grants[0].Limit, s.Grants[0].CPUs, s.Grants[0].Policy = "", "", "best-effort"
		},
		"CPUs 8 are not among the usable ones":        func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].CPUs = "8,3:500m" },
		"strict, with a limit of 1500m and 3 CPUs":    func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].CPUs = "0,3:250m,4:250m" },
		"its CPUs add up to 1600m, its limit is 1500": func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].CPUs = "0,3:600m" },
		"must be a CPU and 1m to 999m of it":          func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].CPUs = "0,3:1" },
		"named twice, or none":                        func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].CPUs = "0,0:500m" },
		"exclusive to this container, and another has it too": func(s *v1alpha1.NodeCPUStatus) {
			s.Grants[1].CPUs, s.Grants[1].Limit = s.Grants[0].CPUs, s.Grants[0].Limit
		},
		"CPUs 0 are lost, and usable": func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Lost = "0" },
		"CPUs 9 are lost, and 6 on 6 CPUs are left: its limit is 1500m": func(s *v1alpha1.NodeCPUStatus) {
			s.Grants[0].CPUs, s.Grants[0].Lost = "0-5", "9"
		},
		"and 1500m on 2 CPUs are left": func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Lost = "9" },
		"and 900m on 3 CPUs are left": func(s *v1alpha1.NodeCPUStatus) {
			s.Grants[0].CPUs, s.Grants[0].Lost = "1:300m,2:300m,3:300m", "9"
		},
		"a flexible container has no fraction": func(s *v1alpha1.NodeCPUStatus) { s.Grants[2].CPUs = "7:500m" },
		"9: the machine has 8":                 func(s *v1alpha1.NodeCPUStatus) { s.Grants[2].Limit, s.Grants[2].Request = "9", "9" },
		"3000 grants add up to 3000: the maximum is 1024": func(s *v1alpha1.NodeCPUStatus) {
			s.Grants = make([]v1alpha1.Grant, 3000)
			for i := range s.Grants {
				s.Grants[i] = v1alpha1.Grant{Container: fmt.Sprint(i), Limit: "1"}
			}
		},
	} {
		n := newNode(t, parse(t, "core:4 pu:2"), hybrid.Options{}, hybrid.Request{ID: uid(1) + "/web", Limit: 1500},
			hybrid.Request{ID: uid(2) + "/db", Limit: 2000}, hybrid.Request{ID: uid(3) + "/log", Class: hybrid.Flexible, Limit: 500})
		s := report(t, n)
		if _, err := Node(s); err != nil {
			t.Fatal(err)
		}
		change(s)
		_, err := Node(s)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("got %v, want %q", err, want)
		}
		if !errors.Is(err, ErrBadReport) && !errors.Is(err, ErrNoReport) {
			t.Errorf("%v is neither ErrBadReport nor ErrNoReport", err)
		}
	}
}

// TestSize: a report of 250 pods has at most 30 KiB, with the metadata that the API server adds.
func TestSize(t *testing.T) {
	s := Status(mixed(t, 250), HolderOf)
	data, err := json.Marshal(v1alpha1.NodeCPU{Status: s})
	if err != nil {
		t.Fatal(err)
	}
	const metadata = 1 << 10
	t.Logf("%d bytes", len(data))
	if len(data)+metadata > 30<<10 {
		t.Errorf("got %d bytes and %d bytes of metadata, want at most %d", len(data), metadata, 30<<10)
	}
}

// FuzzNode: if Node accepts a report, the restored node equals the node of its report. An error is a single
// line.
func FuzzNode(f *testing.F) {
	for _, pods := range []int{0, 3, 10} {
		s := Status(mixed(f, pods), HolderOf)
		s.Counter = 1
		data, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s v1alpha1.NodeCPUStatus
		if json.Unmarshal(data, &s) != nil {
			return
		}
		n, err := Node(&s)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of more than one line: %q", err)
			}
			return
		}
		once := report(t, n)
		again, err := Node(once)
		if err != nil {
			t.Fatalf("%v\ninput %+v\nreport %+v", err, s, once)
		}
		if text(again) != text(n) {
			t.Errorf("node %s\nrestored from its report %s", text(n), text(again))
		}
		step(t, n, false, hybrid.Request{ID: "one more", Limit: 1500})
	})
}
