package podcpu

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/profile"
)

// pod returns a sensitive pod with a single container, decoded from JSON as the API server sends it. The
// parameters are JSON fields of the container and of its status, and JSON conditions.
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

// TestResized: during a resize, a pod counts with the larger of its allocated and its desired CPU, but not
// with a desired amount that is infeasible.
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
		{three, `"allocatedResources":{"cpu":"3"},"resources":{"requests":{"cpu":"3003m"},"limits":{"cpu":"3"}}`, "", sensitive(3000)}, // the request that results from cpu.weight
		{burstable, `"allocatedResources":{"cpu":"3500m"}`, "", hybrid.Request{ID: "u/app", Class: hybrid.Flexible, Limit: 4000, Guarantee: 3500}},
	} {
		a, err := Read(pod(t, c.container, c.status, c.conditions), Context{})
		if err != nil || a.Lasting()[0] != c.want {
			t.Errorf("%s, %s, %s: got %+v, %v; want %+v", c.container, c.status, c.conditions, a, err, c.want)
		}
	}
}

// TestNamespaceDefaults: a setting of the namespace or a default applies if the pod lacks the setting. The
// result lists all settings.
func TestNamespaceDefaults(t *testing.T) {
	p := pod(t, `"resources":{"limits":{"cpu":"1"}}`, `"state":{}`, "")
	a, err := Read(p, Context{Namespace: profile.Values{"class": "flexible", "topology": "single-numa"}, Defaults: profile.Values{"policy": "best-effort"}})
	if err != nil {
		t.Fatal(err)
	}
	r := a.Lasting()[0]
	if r.Class != hybrid.Sensitive || r.Topology != hybrid.SingleNUMA || r.Policy != hybrid.BestEffort {
		t.Errorf("got %+v, want sensitive, single-numa and best-effort", r)
	}
	if v := a.Containers[0].Values; a.Containers[0].Container != "app" || v["class"] != "sensitive" || v["topology"] != "single-numa" || v["policy"] != "best-effort" {
		t.Errorf("got %+v, want all settings of app", a.Containers)
	}
}

// TestAmounts parses valid and invalid amounts. Amounts with huge exponents take no extra time.
func TestAmounts(t *testing.T) {
	for _, amount := range []string{"1e2147483647", "1e-2147483647", "1E+999999999999", "1e-99999999999", "1e999999"} {
		for _, name := range []string{CPU, Memory} {
			p := pod(t, fmt.Sprintf(`"resources":{"requests":{%q:%q},"limits":{%[1]q:"2"}}`, name, amount), `"allocatedResources":{"memory":"1","cpu":"1"}`, "")
			request := p.Requests()[name]
			if order := request.Cmp(resource.MustParse("1")); order < 0 || strings.Contains(amount, "-") != (order == 0) {
				t.Errorf("%s %s: got request %v", amount, name, &request)
			}
			_, _ = ReadBound(p)
		}
	}
	for text, want := range map[string]string{"1.5": "1500m", "2e3": "2k", "1E": "1E", "1Ei": "1Ei", "500m": "500m", "1e3": "1e3"} {
		if q, err := Amount(text); err != nil || q.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s: got %v, %v; want %s", text, &q, err, want)
		}
	}
	p := pod(t, `"resources":{"requests":null,"limits":{"cpu":2,"memory":null,"x":""}}`, `"state":{}`, "")
	if l := p.Spec.Containers[0].Resources; l.Requests != nil || l.Limits.MilliCPU() != 2000 || l.Limits.Value(Memory) != 0 {
		t.Errorf("got %+v, want only a limit of 2 CPUs", l)
	}
	for _, wrong := range []string{"much", "1e", "1ee5", "1e5m"} {
		if q, err := Amount(wrong); err == nil {
			t.Errorf("%s: got %v, want an error", wrong, &q)
		}
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
				t.Errorf("error of more than one line: %q", err)
			}
			return
		}
		p.Requests()
		if a, err := Read(p, Context{}); err == nil && len(a.Containers) != len(p.Spec.Containers)+len(p.Spec.InitContainers) {
			t.Errorf("got %d containers of %q", len(a.Containers), text)
		}
	})
}
