package survey

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/candor-project/candor/kube/podcpu"
)

// decode decodes an object from the JSON of the API server.
func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRefusals: the reason for a refused node has the same text as in kube-scheduler.
func TestRefusals(t *testing.T) {
	const has = `"status":{"allocatable":{"cpu":"4","memory":"1Gi","pods":"2","example.com/gpu":"1"}}`
	const tainted = `{"metadata":{"name":"n"},"spec":{"taints":[{"key":"team","value":"a","effect":"NoSchedule"}]},` + has + `}`
	plain := `{"metadata":{"name":"n","labels":{"zone":"b"}},` + has + `}`
	for _, c := range []struct{ node, spec, want string }{
		{plain, ``, ""},
		{`{"metadata":{"name":"n"},"spec":{"unschedulable":true},` + has + `}`, ``, "node(s) were unschedulable"},
		{`{"metadata":{"name":"n"},"spec":{"unschedulable":true},` + has + `}`, `"tolerations":[{"operator":"Exists"}]`, ""},
		{plain, `"nodeName":"other"`, "node(s) didn't match the requested node name"},
		{plain, `"nodeSelector":{"zone":"b"}`, ""},
		{plain, `"nodeSelector":{"zone":"a"}`, "node(s) didn't match Pod's node affinity/selector"},
		{tainted, ``, "node(s) had untolerated taint {team: a}"},
		{tainted, `"tolerations":[{"key":"team","value":"a"}]`, ""},
		{tainted, `"tolerations":[{"key":"team","value":"b"}]`, "node(s) had untolerated taint {team: a}"},
		{tainted, `"tolerations":[{"key":"team","operator":"Exists","effect":"NoSchedule"}]`, ""},
		{tainted, `"tolerations":[{"key":"team","operator":"Exists","effect":"NoExecute"}]`, "node(s) had untolerated taint {team: a}"},
		{tainted, `"tolerations":[{"key":"team","operator":"Lt","value":"a"}]`, "node(s) had untolerated taint {team: a}"}, // unknown operator
		{tainted, `"tolerations":[{"operator":"Equal","value":"a"}]`, "node(s) had untolerated taint {team: a}"},           // Equal requires a key
		{`{"metadata":{"name":"n"},"spec":{"taints":[{"key":"k","effect":"NoBreath"}]},` + has + `}`, ``, "node(s) had untolerated taint {k}"},
		{`{"metadata":{"name":"n"},"spec":{"taints":[{"key":"k","effect":"PreferNoSchedule"}]},` + has + `}`, ``, ""},
		{plain, `"overhead":{"cpu":"3500m"}`, "Insufficient cpu"},
		{plain, `"overhead":{"memory":"2Gi"}`, "Insufficient memory"},
		{plain, `"overhead":{"example.com/gpu":"2"}`, "Insufficient example.com/gpu"},
		{plain, `"overhead":{"example.com/other":"1"}`, "Insufficient example.com/other"},
	} {
		running := decode[podcpu.Pod](t, `{"metadata":{"uid":"r"},"spec":{"nodeName":"n","containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}}`)
		s := newSurvey(nil, []listedNode{decode[listedNode](t, c.node)}, []podcpu.Pod{running})
		comma := ""
		if c.spec != "" {
			comma = ","
		}
		p := decode[podcpu.Pod](t, `{"spec":{`+c.spec+comma+`"containers":[{"name":"a"}]}}`)
		if got := s.Nodes[0].refusal(&p, p.Requests()); got != c.want {
			t.Errorf("%s on %s: got %q, want %q", c.spec, c.node, got, c.want)
		}
	}
}

// TestCountedPods: pods that have not ended use the resources of their node and count for its maximum number
// of pods. Unseen reports pods that are nominated by preemption.
func TestCountedPods(t *testing.T) {
	node := decode[listedNode](t, `{"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"4","pods":"2"}}}`)
	pods := decode[[]podcpu.Pod](t, `[
		{"metadata":{"uid":"1"},"spec":{"nodeName":"n","containers":[{"name":"a","resources":{"requests":{"cpu":"3"}}}]},"status":{"phase":"Succeeded"}},
		{"metadata":{"uid":"2","annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"n","containers":[{"name":"a","resources":{"requests":{"cpu":"3"}}}]}},
		{"metadata":{"uid":"3"},"spec":{"containers":[{"name":"a"}]},"status":{"nominatedNodeName":"n"}},
		{"metadata":{"uid":"4"},"spec":{"nodeName":"gone","containers":[{"name":"a"}]}}]`)
	s := newSurvey(nil, []listedNode{node}, pods)
	refusal := func(cpu string) string {
		p := decode[podcpu.Pod](t, `{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"`+cpu+`"}}}]}}`)
		return s.Nodes[0].refusal(&p, p.Requests())
	}
	if refusal("1") != "" || refusal("1001m") != "Insufficient cpu" {
		t.Errorf("1 CPU: got %q, want no refusal; 1001m: got %q, want Insufficient cpu", refusal("1"), refusal("1001m"))
	}
	if lines := s.Unseen(); !slices.Equal(lines, []string{"1 pod nominated to a node by preemption: the CPUs that they will need"}) {
		t.Errorf("Unseen: got %q, want a nominated pod", lines)
	}
	full := newSurvey(nil, []listedNode{node}, append(pods, pods[1]))
	p := podcpu.Pod{}
	if got := full.Nodes[0].refusal(&p, nil); got != "Too many pods" {
		t.Errorf("full node: got %q, want Too many pods", got)
	}
}
