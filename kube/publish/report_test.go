package publish

import (
	"errors"
	"reflect"
	"testing"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
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

// TestReportOf: a report identifies the container of a pod by the pod's UID and the container's name, and any
// other container by its ID.
func TestReportOf(t *testing.T) {
	state := snapshot(t)
	policy := func() hybrid.Policy { return hybrid.BestEffort }
	s, err := ReportOf(func() (*host.Snapshot, error) { return state, nil }, policy)()
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
	_, err = ReportOf(func() (*host.Snapshot, error) { return nil, errors.New("broken") }, policy)()
	if !errors.Is(err, errState) {
		t.Error(err)
	}
}
