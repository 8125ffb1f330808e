package publish

import (
	"errors"
	"io/fs"
	"reflect"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
	"github.com/candor-project/candor/view"
)

// snapshot returns a state with containers of pods, of candor run and of an engine.
func snapshot(t *testing.T) *host.Snapshot {
	t.Helper()
	m, err := topology.Parse("core:8 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	s := &host.Snapshot{}
	if s.Node, err = hybrid.NewNode(m, hybrid.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, g := range []struct {
		request hybrid.Request
		state   state.Phase
		engine  host.Engine
	}{
		{hybrid.Request{ID: "web.app-1a2b3c4d", Limit: 1500}, host.Running, host.Engine{Pod: "uid-1", Name: "default/web/app"}},
		{hybrid.Request{ID: "db.app-5e6f7a8b", Limit: 1000}, host.Held, host.Engine{Pod: "uid-2", Name: "default/db/app"}},
		{hybrid.Request{ID: "solver", Class: hybrid.Flexible, Limit: 500}, host.Running, host.Engine{}},
		{hybrid.Request{ID: "docker-1", Class: hybrid.Flexible, Limit: 500}, host.Pending, host.Engine{Name: "registry"}},
	} {
		plan, err := s.Node.Plan(g.request)
		if err == nil {
			err = s.Node.Commit(plan)
		}
		if err != nil {
			t.Fatal(err)
		}
		held, _ := s.Node.Grant(g.request.ID)
		s.Grants = append(s.Grants, host.Grant{Grant: held, State: g.state, Engine: g.engine})
	}
	return s
}

// A machine is a Source with a fixed state.
type machine struct {
	state *host.Snapshot
	seen  map[string]view.Summary // by ID; other containers have ended
}

func (m *machine) Snapshot() (*host.Snapshot, error) {
	if m.state == nil {
		return nil, errors.New("broken")
	}
	return m.state, nil
}

func (m *machine) Observe(g *host.Grant) (o host.Observation, err error) {
	s, isThere := m.seen[g.ID]
	if !isThere {
		return o, fs.ErrNotExist
	}
	o.Sources = []view.Source{{Name: view.SourceAffinity, Role: view.Reported, CPUs: cpuset.Range(0, s.Affinity-1)}}
	for _, name := range []string{"online", "cpuinfo"} {
		file := view.Source{Name: name, Role: view.Reported}
		if s.Files == 0 {
			file.Error = "a file of fuse.lxcfs"
		} else {
			file.CPUs = cpuset.Range(0, s.Files-1)
		}
		o.Sources = append(o.Sources, file)
	}
	return o, nil
}

// TestReportOf: a report identifies the container of a pod by the pod's UID and the container's name, and any
// other container by its ID.
func TestReportOf(t *testing.T) {
	state := snapshot(t)
	policy := func() hybrid.Policy { return hybrid.BestEffort }
	s, err := ReportOf(&machine{state: state}, policy)()
	if err != nil {
		t.Fatal(err)
	}
	want := []v1alpha1.Grant{
		{Pod: "uid-1", Container: "app", Class: "sensitive", Limit: "1500m", CPUs: "0,1:500m"},
		{Pod: "uid-2", Container: "app", Class: "sensitive", Limit: "1", CPUs: "2", Held: true},
		{Container: "solver", Limit: "500m"},
		{Container: "docker-1", Limit: "500m"},
	}
	if !reflect.DeepEqual(s.Grants, want) {
		t.Errorf("got grants %+v\nwant %+v", s.Grants, want)
	}
	if s.Policy != "best-effort" || s.Fingerprint != v1alpha1.Fingerprint([]string{"uid-1", "uid-2"}) {
		t.Errorf("policy %q, fingerprint %q", s.Policy, s.Fingerprint)
	}
	s.Counter = 1
	node, err := nodecpu.Node(&s)
	if err != nil {
		t.Fatal(err)
	}
	if g, ok := node.Grant("uid-1/app"); !ok || g.Limit != 1500 {
		t.Errorf("grant uid-1/app: got %+v, %v; want a limit of 1500m", g, ok)
	}
	_, err = ReportOf(&machine{}, policy)()
	if !errors.Is(err, errState) {
		t.Error(err)
	}
}

// TestReportedSees: a report has the CPUs that a container sees only if they differ from the default view of its class. A container that
// has just started is not observed.
func TestReportedSees(t *testing.T) {
	for _, test := range []struct {
		id   string
		seen view.Summary
		age  time.Duration
		want string
	}{
		{"web.app-1a2b3c4d", view.Summary{Affinity: 2, Files: 2}, time.Minute, ""},
		{"web.app-1a2b3c4d", view.Summary{Affinity: 2, Files: 8}, time.Minute, "2/8"},
		{"web.app-1a2b3c4d", view.Summary{Affinity: 2, Files: 8}, time.Second, ""},
		{"web.app-1a2b3c4d", view.Summary{Affinity: 2}, time.Minute, "2/?"},
		// A container can restrict its own affinity. The report does not change then.
		{"web.app-1a2b3c4d", view.Summary{Affinity: 1, Files: 2}, time.Minute, ""},
		{"web.app-1a2b3c4d", view.Summary{Affinity: 1, Files: 8}, time.Minute, "2/8"},
		{"web.app-1a2b3c4d", view.Summary{Affinity: 1}, time.Minute, "2/?"},
		{"solver", view.Summary{Affinity: 1, Files: 8}, time.Minute, ""},
		{"solver", view.Summary{Affinity: 5, Files: 8}, time.Minute, ""},
		{"solver", view.Summary{Affinity: 5, Files: 5}, time.Minute, "5"},
		{"db.app-5e6f7a8b", view.Summary{Affinity: 1, Files: 8}, time.Minute, ""}, // held
	} {
		m := &machine{state: snapshot(t), seen: map[string]view.Summary{test.id: test.seen}}
		m.state.Now = time.Hour
		for i := range m.state.Grants {
			m.state.Grants[i].Since = time.Hour - test.age
		}
		s, err := ReportOf(m, func() hybrid.Policy { return hybrid.Strict })()
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range s.Grants {
			want := ""
			if m.state.Grants[i].ID == test.id {
				want = test.want
			}
			if g.Sees != want {
				t.Errorf("%s sees %s after %v: %s reports %q, want %q", test.id, test.seen, test.age, g.Container, g.Sees, want)
			}
		}
	}
}

// TestWithPhase: the phase of a report is read for each report.
func TestWithPhase(t *testing.T) {
	phase := ""
	report := ReportOf(&machine{state: snapshot(t)}, func() hybrid.Policy { return hybrid.Strict }).WithPhase(func() string { return phase })
	for _, phase = range []string{"", v1alpha1.GivingBack, v1alpha1.GivenBack} {
		if s, err := report(); err != nil || s.Phase != phase || s.Machine.Online == "" {
			t.Errorf("phase %q: %q, %v", phase, s.Phase, err)
		}
	}
}
