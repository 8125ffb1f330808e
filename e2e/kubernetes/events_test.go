package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"github.com/candor-project/candor/kube/events"
)

// An event has the fields of an Event that the tests use.
type event struct {
	Metadata            struct{ Name string }
	Reason, Note, Type  string
	ReportingInstance   string
	ReportingController string
	Series              *struct{ Count int }
	Regarding           struct{ Kind, Name, UID string }
}

func eventsOf(namespace string) string {
	return "/apis/events.k8s.io/v1/namespaces/" + namespace + "/events"
}

// events returns the Events of candor nri in a namespace.
func (p *controlPlane) events(t *testing.T, namespace string) (all []event) {
	t.Helper()
	var list struct{ Items []event }
	if err := json.Unmarshal([]byte(p.must(t, "GET", eventsOf(namespace), nil)), &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.ReportingController == events.Controller {
			all = append(all, e)
		}
	}
	return all
}

// has reports whether there is an Event with this reason about an object whose note has a text.
func hasEvent(all []event, reason events.Reason, object, text string) bool {
	return slices.ContainsFunc(all, func(e event) bool {
		return e.Reason == string(reason) && e.Regarding.Name == object && strings.Contains(e.Note, text)
	})
}

var eventWrites = regexp.MustCompile(`(?m)^apiserver_request_total\{[^}]*\} (\d+)`)

// eventWrites returns the number of writes of Events that the API server has accepted.
func (p *controlPlane) eventWrites(t *testing.T) (n int) {
	t.Helper()
	for _, line := range eventWrites.FindAllStringSubmatch(p.must(t, "GET", "/metrics", nil), -1) {
		isWrite := strings.Contains(line[0], `verb="POST"`) || strings.Contains(line[0], `verb="PATCH"`)
		if isWrite && strings.Contains(line[0], `group="events.k8s.io"`) && strings.Contains(line[0], `code="20`) {
			count, err := strconv.Atoi(line[1])
			if err != nil {
				t.Fatal(err)
			}
			n += count
		}
	}
	return n
}

// A runtime is the NRI side of a container runtime without containers.
type runtime struct {
	*adaptation.Adaptation
	m *machine
}

// startRuntime starts a runtime at the plugin's socket.
func (m *machine) startRuntime() *runtime {
	m.t.Helper()
	sync := func(ctx context.Context, synchronize adaptation.SyncCB) error {
		_, err := synchronize(ctx, nil, nil)
		return err
	}
	update := func(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
		return nil, nil
	}
	adaptation.SetPluginRequestTimeout(patience) // the tests do not measure the time of the plugin on a busy machine
	none := m.path("no-plugins")
	a, err := adaptation.New("containerd", "v2.4.2", sync, update, adaptation.WithSocketPath(m.path("none.sock")),
		adaptation.WithPluginPath(none), adaptation.WithPluginConfigPath(none))
	if err == nil {
		err = a.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(a.Stop)
	return &runtime{a, m}
}

// downgraded creates and removes a pod with a sensitive container without a CPU limit. It returns the time that the creation
// takes.
func (r *runtime) downgraded(namespace string, i int) (took time.Duration) {
	r.m.t.Helper()
	name := fmt.Sprintf("web-%d", i)
	pod := &api.PodSandbox{Id: "box-" + name, Uid: "uid-" + name, Name: name, Namespace: namespace, Annotations: map[string]string{"candor.dev/class": "sensitive"}}
	c := &api.Container{Id: "id-" + name, PodSandboxId: pod.Id, Name: "app", Linux: &api.LinuxContainer{
		CgroupsPath: filepath.Join("/", r.m.parent()+"-pods", "pod"+pod.Uid, "id-"+name),
		Resources:   &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(uint64(2))}},
	}}
	start := time.Now()
	_, err := r.CreateContainer(r.m.t.Context(), &adaptation.CreateContainerRequest{Pod: pod, Container: c})
	took = time.Since(start)
	if err == nil {
		err = r.RemoveContainer(r.m.t.Context(), &adaptation.RemoveContainerRequest{Pod: pod, Container: c})
	}
	if err == nil {
		err = r.RemovePodSandbox(r.m.t.Context(), &adaptation.RemovePodSandboxRequest{Pod: pod})
	}
	if err != nil {
		r.m.t.Fatal(err)
	}
	return took
}

// namespace creates a namespace.
func (p *controlPlane) namespace(t *testing.T, name string) string {
	t.Helper()
	p.apply(t, "kind: Namespace\nmetadata: {name: "+name+"}\n")
	return name
}

// TestEventsAreLimited: 1,000 downgraded pods on a node in a minute cause at most 90 writes to the API server, and the rest is
// counted.
func TestEventsAreLimited(t *testing.T) {
	p := install(t)
	m := newMachine(t)
	r := m.startRuntime()
	namespace := p.namespace(t, "downgraded")
	m.publish(p, "downgrading", agentOf(t, p, "downgrading"))
	eventually(t, "the plugin is connected", func() bool { return m.metric("candor_connected") == 1 })
	before := p.eventWrites(t)
	const pods, minute = 1000, time.Minute
	start := time.Now()
	for i := range pods {
		time.Sleep(time.Until(start.Add(time.Duration(i) * minute / pods)))
		r.downgraded(namespace, i)
	}
	took := time.Since(start)
	eventually(t, "each pod is counted", func() bool {
		return m.metric("candor_events_total")+m.metric(`candor_events_dropped_total{reason="rate-limit"}`) >= pods
	})
	all, writes := p.events(t, namespace), p.eventWrites(t)-before
	t.Logf("%d pods in %v: %d Events, %d writes", pods, took.Round(time.Second), len(all), writes)
	if maxWrites := 90 + int((took-minute)/time.Second); writes > maxWrites || writes < 60 || len(all) > writes || len(all) < 60 {
		t.Errorf("%d writes and %d Events of pods, want 60 to %d", writes, len(all), maxWrites)
	}
	if !hasEvent(all, events.DowngradedNoLimit, "web-0", "container downgraded/web-0/app is treated as flexible: it has no CPU limit; set a CPU limit") {
		t.Errorf("no Event of the first pod in %+v", all)
	}
	for _, e := range all {
		if e.ReportingInstance != "downgrading" || e.Type != "Warning" || e.Regarding.Kind != "Pod" || e.Regarding.UID != "uid-"+e.Regarding.Name {
			t.Errorf("Event %+v", e)
		}
	}
}

// TestEventsWithoutServer: while the API server is away, no container waits for its Event, and the memory of the agent is
// bounded. Afterwards, the newest Events are written.
func TestEventsWithoutServer(t *testing.T) {
	p := install(t)
	m := newMachine(t)
	r := m.startRuntime()
	namespace := p.namespace(t, "outage")
	m.publish(p, "cut-off", agentOf(t, p, "cut-off"))
	eventually(t, "the first Event is written", func() bool {
		return m.metric("candor_connected") == 1 && r.downgraded(namespace, 0) > 0 && len(p.events(t, namespace)) == 1
	})
	const pods = 300
	measure := func(first int) (median time.Duration) {
		var all []time.Duration
		for i := range pods {
			all = append(all, r.downgraded(namespace, first+i))
		}
		slices.Sort(all)
		t.Logf("median %v, longest %v", all[pods/2], all[pods-1])
		return all[pods/2]
	}
	with := measure(1)
	p.killServer()
	without := measure(1 + pods)
	for range 3 {
		measure(1 + pods) // repetitions, and new pods
		measure(1 + 2*pods)
	}
	m.checkMemory()
	if err := p.startServer(); err != nil {
		t.Fatal(err)
	}
	if without > 2*with+10*time.Millisecond {
		t.Errorf("without the API server, the creation of a container takes %v, and %v with it", without, with)
	}
	if log := m.log(); strings.Count(log, "cannot write an Event") > 2 { // the rights of an API server that has just started can be unknown
		t.Error("want a single line about the outage for each reason")
	}
	last := fmt.Sprintf("web-%d", 3*pods)
	eventually(t, "the last pod has its Event", func() bool {
		return hasEvent(p.events(t, namespace), events.DowngradedNoLimit, last, "no CPU limit")
	})
}

// TestNodeEvents: a plugin without a runtime has an Event of the node after 30 s. A different allocatable CPU of the kubelet has
// one at once.
func TestNodeEvents(t *testing.T) {
	p := install(t)
	m := newMachine(t)
	token := agentOf(t, p, "lonely")
	p.must(t, "PUT", "/api/v1/nodes/lonely/status", []byte(`{"metadata":{"name":"lonely"},"status":{"allocatable":{"cpu":"1500500m"}}}`))
	m.publish(p, "lonely", token)
	eventually(t, "the Event about the allocatable CPU", func() bool {
		return hasEvent(p.events(t, "default"), events.CPUAllocatableDiffers, "lonely", "1500500m, differs from the CPU time that Candor can allocate")
	})
	eventually(t, "the Event about the missing runtime", func() bool {
		return hasEvent(p.events(t, "default"), events.CandorNotConnected, "lonely", "none.sock")
	})
	if out := describe(t, p, "node", "lonely", ""); !strings.Contains(out, string(events.CandorNotConnected)) {
		t.Errorf("kubectl describe node does not show the Event:\n%s", out)
	}
}

// describe returns the output of kubectl describe.
func describe(t *testing.T, p *controlPlane, kind, name, namespace string) string {
	t.Helper()
	c := &helmCluster{t, p, ""}
	if _, err := os.Stat("/usr/bin/kubectl"); err != nil {
		t.Skip(err)
	}
	c.writeAccess(t, c.path("kubeconfig"), adminToken)
	return c.run(fmt.Sprintf("kubectl describe %s %s --namespace=%s", kind, name, namespace))
}

// TestOnlyTheAgentWritesEvents: the agent of a node writes Events that name this node as their reporter, and no other Events. No
// other user can write or change such Events.
func TestOnlyTheAgentWritesEvents(t *testing.T) {
	p := install(t)
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + "." + strings.Repeat("c", 60)
	a, b, far := agentOf(t, p, "node-a"), agentOf(t, p, "node-b"), agentOf(t, p, long)
	anywhere := tokenOf(t, p, agents, "")
	path, core := eventsOf("other"), "/api/v1/namespaces/other/events"
	newEvent := func(name, controller, instance string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":%q,"namespace":"other"},"eventTime":"2026-01-02T03:04:05.000006Z",
"reportingController":%q,"reportingInstance":%q,"action":"Allocate","reason":"CPUsRefused","note":"a","type":"Warning",
"regarding":{"apiVersion":"v1","kind":"Pod","namespace":"other","name":"web","uid":"1"}}`, name, controller, instance)
	}
	old := []byte(`{"metadata":{"name":"old","namespace":"other"},"involvedObject":{"kind":"Pod","namespace":"other","name":"web"},"reason":"a","message":"a","type":"Normal",
"eventTime":"2026-01-02T03:04:05.000006Z","action":"a","reportingComponent":"candor.dev/nri","reportingInstance":"node-a"}`)
	series := func(name string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":%q,"namespace":"other"},"series":{"count":2,"lastObservedTime":"2026-01-02T03:05:05.000006Z"}}`, name)
	}
	const candorNRI, patch = events.Controller, "?fieldManager=test&force=true"
	for _, c := range []call{
		{"agent", a, "POST", path, newEvent("a", candorNRI, "node-a"), http.StatusCreated, ""},
		{"agent with a long name", far, "POST", path, newEvent("far", candorNRI, long[:128]), http.StatusCreated, ""},
		{"agent", a, "POST", path, newEvent("b", candorNRI, "node-b"), http.StatusForbidden, "only the agent of node node-b writes its Events of candor.dev/nri, not that of node-a"},
		{"agent", a, "POST", path, newEvent("c", "example.com/kubelet", "node-a"), http.StatusForbidden, "only the agent of node node-a"},
		{"agent of no node", anywhere, "POST", path, newEvent("d", candorNRI, "node-a"), http.StatusForbidden, "a node that its token does not name"},
		{"administrator", adminToken, "POST", path, newEvent("e", candorNRI, "node-a"), http.StatusForbidden, "only the agent of node node-a"},
		{"administrator", adminToken, "POST", core, old, http.StatusForbidden, "only the agent of node node-a"},
		{"administrator", adminToken, "POST", path, newEvent("f", "example.com/kubelet", "node-a"), http.StatusCreated, ""},
		{"agent", a, "PATCH", path + "/a" + patch, series("a"), http.StatusOK, `"count":2`},
		{"agent of another", b, "PATCH", path + "/a" + patch, series("a"), http.StatusForbidden, "not that of node-b"},
		{"agent", a, "PATCH", path + "/f" + patch, series("f"), http.StatusForbidden, "only the agent of node node-a"},
		{"administrator", adminToken, "PATCH", path + "/a" + patch, series("a"), http.StatusForbidden, "only the agent of node node-a"},
		{"agent", a, "POST", core, old, http.StatusForbidden, "cannot create"},
		{"agent", a, "GET", path, nil, http.StatusForbidden, "cannot list"},
		{"agent", a, "GET", path + "/a", nil, http.StatusForbidden, "cannot get"},
		{"agent", a, "PUT", path + "/a", newEvent("a", candorNRI, "node-a"), http.StatusForbidden, "cannot update"},
		{"agent", a, "DELETE", path + "/a", nil, http.StatusForbidden, "cannot delete"},
		{"administrator", adminToken, "DELETE", path + "/a", nil, http.StatusOK, ""},
		{"administrator", adminToken, "DELETE", path + "/f", nil, http.StatusOK, ""},
		{"administrator", adminToken, "DELETE", path + "/far", nil, http.StatusOK, ""},
	} {
		c.do(t, p)
	}
}
