package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/kube/v1alpha1"
)

const (
	objects   = "../../deploy/helm/candor/crds/*.yaml"
	chart     = "../../deploy/helm/testdata/publish.yaml" // with publish, the scheduler, schedulers and sensitiveOnlyIn set
	agents    = "/api/v1/namespaces/candor-system/serviceaccounts/candor/token"
	scheduler = "/api/v1/namespaces/candor-system/serviceaccounts/candor-scheduler/token"
)

// install creates the cluster objects of the chart if they do not exist. When it returns, the CRDs are served and the policies are in
// force.
func install(t *testing.T) *controlPlane {
	t.Helper()
	p := needPlane(t)
	files, err := filepath.Glob(objects)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v: %q", err, files)
	}
	for _, name := range []string{"candor-system", "spark", "other"} {
		p.apply(t, "kind: Namespace\nmetadata: {name: "+name+"}\n")
	}
	for _, file := range append(files, chart) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p.apply(t, string(text))
	}
	eventually(t, "NodeCPUs and CPUProfiles are served", func() bool {
		a, _ := p.try("GET", nodeCPUs, adminToken, nil)
		b, _ := p.try("GET", profilesOf("spark"), adminToken, nil)
		return a == http.StatusOK && b == http.StatusOK
	})
	eventually(t, "each policy refuses", func() bool { return p.refuses(t) })
	return p
}

// refuses reports whether each policy is in force. A policy takes effect some time after its creation.
func (p *controlPlane) refuses(t *testing.T) bool {
	const pods = "/api/v1/namespaces/other/pods"
	for _, c := range []struct {
		policy, path string
		body         []byte
	}{
		{"hint", pods, pod("early", map[string]string{"candor.dev/hint": "x"}, "")},
		{"nodecpu", nodeCPUs, object(t, "NodeCPU", "early", v1alpha1.NodeCPU{})},
		{"event", eventsOf("other"), []byte(earlyEvent)},
	} {
		if !p.refusesBy(c.policy, c.path, c.body) {
			return false
		}
	}
	for _, r := range restrictions {
		if !p.refusesBy(r.policy, pods, pod("early", map[string]string{"candor.dev/" + r.setting: r.refused}, "")) ||
			!p.refusesBy(r.policy+"-namespaces", places["Namespace"], r.namespace("early", r.refused)) ||
			r.inProfiles && !p.refusesBy(r.policy+"-profiles", profilesOf("other"), r.profile("early", r.refused)) {
			return false
		}
	}
	return true
}

const earlyEvent = `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"early","namespace":"other"},"eventTime":"2026-01-02T03:04:05.000006Z",
"reportingController":"candor.dev/nri","reportingInstance":"early","action":"a","reason":"a","note":"a","type":"Normal","regarding":{"kind":"Pod","namespace":"other","name":"web"}}`

// refusesBy reports whether a policy refuses the creation of an object.
func (p *controlPlane) refusesBy(policy, path string, body []byte) bool {
	_, answer := p.try("POST", path+"?dryRun=All", adminToken, body)
	return strings.Contains(answer, "'candor-"+policy+"'")
}

// agentOf returns the token of the agent on a node. The token belongs to a pod on that node, which agentOf creates if it is missing.
func agentOf(t *testing.T, p *controlPlane, node string) string {
	t.Helper()
	p.apply(t, "kind: Node\nmetadata: {name: "+node+"}\n")
	name := "agent-of-" + node
	p.try("POST", "/api/v1/namespaces/candor-system/pods", adminToken, pod(name, nil, fmt.Sprintf(`"serviceAccountName":"candor","nodeName":%q,`, node)))
	return tokenOf(t, p, agents, name)
}

// collectorOf returns a token of Kubernetes' garbage collector, which has its rights from the API server.
func collectorOf(t *testing.T, p *controlPlane) string {
	t.Helper()
	const accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
	p.try("POST", accounts, adminToken, []byte(`{"metadata":{"name":"generic-garbage-collector"}}`)) // it may be there
	return tokenOf(t, p, accounts+"/generic-garbage-collector/token", "")
}

// tokenOf returns a token of a service account. If pod is not empty, the token belongs to this pod of the account.
func tokenOf(t *testing.T, p *controlPlane, path, pod string) string {
	t.Helper()
	request := `{"spec":{}}`
	if pod != "" {
		request = fmt.Sprintf(`{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":%q}}}`, pod)
	}
	var answer struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(p.must(t, "POST", path, []byte(request))), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}
