package podcpu

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/profile"
)

// pod is one of a container, as the API server sends it, with more fields of the container and of its status.
func pod(t *testing.T, container, status, conditions string) *Pod {
	t.Helper()
	p := &Pod{}
	text := fmt.Sprintf(`{"metadata":{"name":"web","namespace":"shop","uid":"u","annotations":{"candor.dev/class":"sensitive"}},
		"spec":{"containers":[{"name":"app",%s}]},"status":{"containerStatuses":[{"name":"app",%s}],"conditions":[%s]}}`, container, status, conditions)
	if err := json.Unmarshal([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// While a container is resized the larger counts of what its node has agreed to and what it is to have, but not what
// the node will never give.
func TestResized(t *testing.T) {
	const (
		three      = `"resources":{"limits":{"cpu":"3"},"requests":{"cpu":"3"}}`
		burstable  = `"resources":{"limits":{"cpu":"4"},"requests":{"cpu":"3"}}`
		infeasible = `{"type":"PodResizePending","reason":"Infeasible"}`
		deferred   = `{"type":"PodResizePending","reason":"Deferred"}`
	)
	sensitive := func(limit hybrid.Milli) hybrid.Request {
		return hybrid.Request{ID: "u/app", Class: hybrid.Sensitive, Limit: limit}
	}
	for _, c := range []struct {
		container, status, conditions string
		want                          hybrid.Request
	}{
		{three, `"state":{}`, "", sensitive(3000)},
		{three, `"allocatedResources":{"cpu":"3"}`, "", sensitive(3000)},
		{three, `"allocatedResources":{"cpu":"2"}`, deferred, sensitive(3000)},
		{three, `"allocatedResources":{"cpu":"2"}`, infeasible, sensitive(2000)},
		{three, `"allocatedResources":{"cpu":"3500m"}`, "", sensitive(3500)},
		{three, `"allocatedResources":{"cpu":"3"},"resources":{"requests":{"cpu":"3003m"},"limits":{"cpu":"3"}}`, "", sensitive(3000)}, // the weights of the agent
		{burstable, `"allocatedResources":{"cpu":"3500m"}`, "", hybrid.Request{ID: "u/app", Class: hybrid.Flexible, Limit: 4000, Guarantee: 3500}},
	} {
		a, err := Read(pod(t, c.container, c.status, c.conditions), Beside{})
		if err != nil || a.Lasting()[0] != c.want {
			t.Errorf("%s, %s, %s: %+v, %v; want %+v", c.container, c.status, c.conditions, a, err, c.want)
		}
	}
}

// What is said beside the pod counts where the pod says nothing, and all of it is told.
func TestBeside(t *testing.T) {
	p := pod(t, `"resources":{"limits":{"cpu":"1"}}`, `"state":{}`, "")
	a, err := Read(p, Beside{Namespace: profile.Values{"class": "flexible", "topology": "single-numa"}, Defaults: profile.Values{"policy": "best-effort"}})
	if err != nil {
		t.Fatal(err)
	}
	r := a.Lasting()[0]
	if r.Class != hybrid.Sensitive || r.Wish != hybrid.SingleNUMA || r.Policy != hybrid.BestEffort {
		t.Errorf("%+v", r)
	}
	if v := a.Containers[0].Values; a.Containers[0].Container != "app" || v["class"] != "sensitive" || v["topology"] != "single-numa" || v["policy"] != "best-effort" {
		t.Errorf("%+v", a.Containers)
	}
}

func FuzzFromManifest(f *testing.F) {
	f.Add("kind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}")
	f.Add("kind: CronJob\nmetadata: {name: a, namespace: b}\nspec: {jobTemplate: {spec: {template: {spec: {initContainers: [{name: a, restartPolicy: Always}], containers: [{name: b}]}}}}}")
	f.Add("kind: Pod\nspec: {overhead: {cpu: 1e9}, resources: {requests: {cpu: 1}}, containers: [{name: a}], affinity: {}, nodeSelector: {a: b}}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := FromManifest([]byte(text))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		p.Requests()
		if a, err := Read(p, Beside{}); err == nil && len(a.Containers) != len(p.Spec.Containers)+len(p.Spec.InitContainers) {
			t.Errorf("%d containers of %q", len(a.Containers), text)
		}
	})
}
