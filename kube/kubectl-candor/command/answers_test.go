package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/candor-project/candor/kube/kubectl-candor/remote"
)

// TestTop: the containers of all nodes, sorted. Output that is not candor top's is the problem of its node.
func TestTop(t *testing.T) {
	answers := []remote.Answer{
		{Node: "node-1", Output: []byte(`{"containers":[{"name":"shop/web/app","namespace":"shop","class":"sensitive","limitMilli":2000,"useMilli":500,"sees":2,"seesFiles":2},
			{"name":"shop/db/app","namespace":"shop","class":"flexible","limitMilli":0,"useMilli":1500,"throttledShare":0.25,"sees":4,"seesFiles":8}]}`)},
		{Node: "node-2", Output: []byte("candor: command not found")},
		{Node: "node-3", Err: errors.New("no answer within 13s")},
		{Node: "node-4", Output: []byte(`{"containers":[{"name":"job\u001b[31m","class":"flexible","sees":1}]}`)},
	}
	r := topOf(answers, "")
	r.sort("use")
	var out strings.Builder
	const want = `NODE    CONTAINER    CLASS      LIMIT  SEES  USE   LIM%  THR%
node-1  shop/db/app  flexible   -      4/8   1.50  -     25
node-1  shop/web/app  sensitive  2      2     0.50  25    -
node-4  job\x1b[31m  flexible   -      1/?   -     -     -

3 containers use 2.00 CPUs. 2 of 4 nodes with an agent answered.

Nodes without answer (2):
- node-2: the output is not the JSON of candor top
- node-3: no answer within 13s
`
	if err := r.write(&out, 0, 0); err != nil || strings.Join(strings.Fields(out.String()), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
	}
	if err := missingAnswers(r.Nodes); err == nil || err.Error() != "2 of 4 nodes did not answer: node-2, node-3" {
		t.Errorf("%v, want the nodes", err)
	}
	if r := topOf(answers, "shop"); len(r.Containers) != 2 {
		t.Errorf("namespace shop: %+v", r.Containers)
	}
	r.sort("limit-used")
	if r.Containers[0].Name != "shop/web/app" {
		t.Errorf("sorted by limit: %s is first", r.Containers[0].Name)
	}
}

// TestDiagnosis: nodes with the same finding share a row, the worst first. A failed check and a node without an answer are
// errors.
func TestDiagnosis(t *testing.T) {
	const checks = `{"checks":[{"id":"nri-timeout","status":"warning","found":"2 s","next":"set it to 5 s"},{"id":"cpus","status":"ok","found":"64"},{"id":"x","status":"new"}]}`
	d := newDiagnosis(4)
	for _, a := range []remote.Answer{
		{Node: "node-1", Output: []byte(checks)},
		{Node: "node-2", Output: []byte(checks)},
		{Node: "node-3", Output: []byte(`{"checks":[{"id":"nri-enabled","status":"failed","found":"NRI is off","next":"enable it"}]}`), Err: &remote.ExitError{Code: 1}},
		{Node: "node-4", Err: remote.ErrNoAgent},
	} {
		d.addAnswer(&a)
	}
	d.finish(false)
	var out strings.Builder
	const want = `STATUS   CHECK        NODES          FOUND
failed   nri-enabled  node-3         NRI is off
warning  nri-timeout  node-1,node-2  2 s
warning  agent        node-4         no agent of Candor runs on the node

Next steps:
  nri-enabled: enable it
  nri-timeout: set it to 5 s
  agent: nodeSelector and tolerations of the chart select the nodes (docs/deploy.md)

4 nodes: 1 failed, 2 warnings, 0 unknown.
`
	if err := d.write(&out, 0); err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
	}
	if err := d.err(); err == nil || err.Error() != "check nri-enabled failed on 1 node" {
		t.Errorf("%v", err)
	}
	d.addAnswer(&remote.Answer{Node: "node-5", Err: errors.New("no answer within 12s")})
	d.addAnswer(&remote.Answer{Node: "node-6", Output: []byte("{}")})
	if err := d.err(); err == nil || err.Error() != "2 of 4 nodes did not answer: node-5, node-6" {
		t.Errorf("%v", err)
	}
}

// TestNotAnswered: an error names a bounded number of nodes.
func TestNotAnswered(t *testing.T) {
	names := strings.Fields(strings.Repeat("node ", 30))
	if err := notAnswered(names, 100); err == nil || !strings.HasSuffix(err.Error(), "node and 10 more") || strings.Count(err.Error(), "node,") != maxNamed-1 {
		t.Errorf("%v", err)
	}
	if err := notAnswered(nil, 100); err != nil {
		t.Error(err)
	}
}
