package planio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// session returns a session for a machine without containers. description is in hwloc's notation.
func session(t testing.TB, description string, options hybrid.Options) *Session {
	t.Helper()
	m, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	node, err := hybrid.NewNode(m, options)
	if err != nil {
		t.Fatal(err)
	}
	return &Session{Node: node}
}

// results applies operations, a line each, and returns their results as JSON lines.
func results(t testing.TB, s *Session, lines string) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.Run(strings.NewReader(lines), func(r Result) error { return r.WriteJSON(&out) }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestRefusals: a refused operation has a result with the error and the reason, and does not change the node.
func TestRefusals(t *testing.T) {
	for line, want := range map[string]string{
		`{"op":"allocate","cpu":"1"}`:                                                   "bad-request: no id: must be the name of a container",
		`{"op":"allocate","id":"","cpu":"1"}`:                                           "bad-request: no id: must be the name of a container",
		`{"op":"allocate","id":7,"cpu":"1"}`:                                            "bad-request: id wants a string, got 7",
		`{"op":"allocate","id":"a"}`:                                                    `bad-request: no cpu: must be a number of CPUs such as "2", "1.5" or "1500m"`,
		`{"op":"allocate","id":"a","cpu":null}`:                                         "bad-request: cpu wants a string, got null",
		`{"op":"allocate","id":"a","cpu":"abc"}`:                                        `bad-request: cpu: CPU amount "abc": must be a number of CPUs such as 2, 1.5 or 1500m`,
		`{"op":"allocate","id":"a","cpu":"1.0005"}`:                                     "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"-1"}`:                                         "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"1e9"}`:                                        "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"0"}`:                                          "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"0.005"}`:                                      "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"1","class":"best"}`:                           `bad-request: class "best": must be one of sensitive, flexible`,
		`{"op":"allocate","id":"a","cpu":"1","policy":"hard"}`:                          "bad-request: policy ",
		`{"op":"allocate","id":"a","cpu":"1","topology":"near"}`:                        "bad-request: topology ",
		`{"op":"allocate","id":"a","cpu":"1","request":"1"}`:                            "bad-request: request is for flexible containers",
		`{"op":"allocate","id":"a","cpu":"1","class":"flexible","request":"2"}`:         "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"5"}`:                                          "no-capacity: ",
		`{"op":"allocate","id":"first","cpu":"1"}`:                                      "id-taken: ",
		`{"op":"release","id":"a"}`:                                                     "id-unknown: ",
		`{"op":"resize","id":"a","cpu":"1"}`:                                            "id-unknown: ",
		`{"op":"resize","id":"first"}`:                                                  "bad-request: no cpu",
		`{"op":"resize","id":"first","cpu":"x"}`:                                        "bad-request: cpu: ",
		`{"op":"resize","id":"first","cpu":"1","request":"1"}`:                          "bad-request: request is for flexible containers, first is sensitive",
		`{"op":"resize","id":"first","cpu":"99"}`:                                       "no-capacity: ",
		`{"op":"release","id":"` + strings.Repeat("x", 254) + `"}`:                      "bad-request: id of 254 bytes: must be 253 at most",
		`{"op":"allocate","id":"a","cpu":{"of":["` + strings.Repeat("x", 9999) + `"]}}`: "bad-request: cpu wants a string, got {",
	} {
		s := session(t, "core:4 pu:1", hybrid.Options{})
		before := results(t, s, `{"op":"allocate","id":"first","cpu":"1"}`)
		var got Result
		text := results(t, s, line)
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if got.OK || !strings.HasPrefix(got.Error+": "+got.Reason, want) || len(got.Reason) > 250 || got.Reason == "" {
			t.Errorf("%.99s\n%.400swant %s", line, text, want)
		}
		results(t, s, `{"op":"release","id":"first"}`)
		if after := results(t, s, `{"op":"allocate","id":"first","cpu":"1"}`); after != before {
			t.Errorf("%.99s changed the node:\n%s%s", line, before, after)
		}
	}
}

// TestResizeKeepsGuarantee: a resize without a request keeps a separate guarantee. A guarantee that equals
// the limit follows the new limit.
func TestResizeKeepsGuarantee(t *testing.T) {
	s := session(t, "core:4 pu:1", hybrid.Options{})
	for _, step := range []struct {
		line string
		want hybrid.Milli
	}{
		{`{"op":"allocate","id":"a","class":"flexible","cpu":"2","request":"500m"}`, 500},
		{`{"op":"resize","id":"a","cpu":"3"}`, 500},
		{`{"op":"resize","id":"a","cpu":"3","request":"1"}`, 1000},
		{`{"op":"resize","id":"a","cpu":"3","request":"0"}`, 0},
		{`{"op":"release","id":"a"}`, 0},
		{`{"op":"allocate","id":"a","class":"flexible","cpu":"1"}`, 1000},
		{`{"op":"resize","id":"a","cpu":"2"}`, 2000},
		{`{"op":"resize","id":"a","cpu":"0"}`, 0},
		{`{"op":"release","id":"a"}`, 0},
		{`{"op":"allocate","id":"a","class":"flexible","cpu":"0","request":"0"}`, 0},
		{`{"op":"resize","id":"a","cpu":"500m"}`, 0},
		{`{"op":"resize","id":"a","cpu":"0"}`, 0},
		{`{"op":"resize","id":"a","cpu":"1","request":"200m"}`, 200},
		{`{"op":"resize","id":"a","cpu":"0","request":"0"}`, 0},
		{`{"op":"resize","id":"a","cpu":"500m"}`, 0},
	} {
		if out := results(t, s, step.line); !strings.Contains(out, `"ok":true`) {
			t.Fatalf("%s\n%s", step.line, out)
		}
		if got := s.Node.Guaranteed(); got != step.want {
			t.Errorf("after %s: got %v guaranteed, want %v", step.line, got, step.want)
		}
	}
}

// TestBadLineStops: a bad line ends the run with its number. Results of previous lines are written, and later
// lines are not applied.
func TestBadLineStops(t *testing.T) {
	s := session(t, "core:4 pu:1", hybrid.Options{})
	var got []string
	err := s.Run(strings.NewReader(`{"op":"allocate","id":"a","cpu":"1"}

{"op":"release","id":"b"}
oops
{"op":"release","id":"a"}`), func(r Result) error { got = append(got, r.Op+r.ID); return nil })
	var lineErr *LineError
	if !errors.As(err, &lineErr) || err.Error() != "line 4: must be a JSON object, got oops" || fmt.Sprint(got) != "[allocatea releaseb]" {
		t.Errorf("%v after %v", err, got)
	}
	if _, there := s.Node.Grant("a"); !there {
		t.Error("a line after the bad one was applied")
	}
}
