package planio

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

// session returns a session on a written-down machine.
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

// results applies lines and returns the JSON lines.
func results(t testing.TB, s *Session, lines string) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.Run(strings.NewReader(lines), func(r Result) error { return r.WriteJSON(&out) }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestFormat holds the format byte by byte: every file in testdata has
// operations and, in its .out, their results.
func TestFormat(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no files in testdata", err)
	}
	for _, file := range files {
		operations, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := results(t, session(t, "pack:2 numa:1 l3:1 core:4 pu:2", hybrid.Options{}), string(operations))
		file = strings.TrimSuffix(file, "jsonl") + "out"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs (go test -update writes it anew); got:\n%s", file, got)
		}
	}
}

// TestEncoding holds the form of results, whatever the allocator decides.
func TestEncoding(t *testing.T) {
	set := cpuset.MustParse
	exclusive := set("16-17")
	for _, c := range []struct {
		result Result
		want   string
	}{
		{
			Result{
				Op: "allocate", ID: "web", OK: true,
				Grant: &Grant{CPUs: set("0-3"), Exclusive: set("0-2"), Fractions: Fractions{{CPU: 3, Milli: 500}}, Quota: 3500},
				Changes: []Change{
					{ID: "log", CPUs: set("4-15")},
					{ID: "db", CPUs: set("16-18"), Exclusive: &exclusive, Fractions: Fractions{{CPU: 18, Milli: 500}}},
				},
				State: &State{Pools: Pools{set("0-2"), set("3"), set("4-15")}, SensitiveMilli: 3500},
			},
			`{"op":"allocate","id":"web","ok":true,"grant":{"cpus":"0-3","exclusive":"0-2","fractions":{"3":500},"quota":3500},` +
				`"changes":[{"id":"log","cpus":"4-15"},{"id":"db","cpus":"16-18","exclusive":"16-17","fractions":{"18":500}}],` +
				`"pools":{"exclusive":"0-2","fractional":"3","shared":"4-15"},"sharedMilli":0,"totalSensitiveMilli":3500}`,
		},
		{
			Result{Op: "allocate", ID: "big", Error: "no-capacity", Reason: `a "reason" <&>`},
			`{"op":"allocate","id":"big","ok":false,"error":"no-capacity","reason":"a \"reason\" <&>"}`,
		},
		{
			Result{Op: "allocate", ID: "log", OK: true, Grant: &Grant{CPUs: set("1")}, Changes: []Change{}, State: &State{}, Explain: []Step{}},
			`{"op":"allocate","id":"log","ok":true,"grant":{"cpus":"1","exclusive":""},"changes":[],` +
				`"pools":{"exclusive":"","fractional":"","shared":""},"sharedMilli":0,"totalSensitiveMilli":0,"explain":[]}`,
		},
		{
			Result{Op: "resize", ID: "a", OK: true, Grant: &Grant{Fractions: Fractions{{CPU: 9, Milli: 1}, {CPU: 10, Milli: 2}}}, Changes: []Change{}, State: &State{}},
			`{"op":"resize","id":"a","ok":true,"grant":{"cpus":"","exclusive":"","fractions":{"9":1,"10":2}},"changes":[],` +
				`"pools":{"exclusive":"","fractional":"","shared":""},"sharedMilli":0,"totalSensitiveMilli":0}`,
		},
	} {
		var b bytes.Buffer
		if err := c.result.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		if b.String() != c.want+"\n" {
			t.Errorf("got  %s\nwant %s", b.String(), c.want)
		}
	}
}

// TestRefusals: what cannot be meant is a result, and nothing changes.
func TestRefusals(t *testing.T) {
	for line, want := range map[string]string{
		`{"op":"allocate","cpu":"1"}`:                                                   "bad-request: no id: want the name of a container",
		`{"op":"allocate","id":"","cpu":"1"}`:                                           "bad-request: no id: want the name of a container",
		`{"op":"allocate","id":7,"cpu":"1"}`:                                            "bad-request: id wants a string, got 7",
		`{"op":"allocate","id":"a"}`:                                                    `bad-request: no cpu: want a number of CPUs such as "2", "1.5" or "1500m"`,
		`{"op":"allocate","id":"a","cpu":null}`:                                         "bad-request: cpu wants a string, got null",
		`{"op":"allocate","id":"a","cpu":"abc"}`:                                        `bad-request: cpu: CPU amount "abc": want a number of CPUs such as 2, 1.5 or 1500m`,
		`{"op":"allocate","id":"a","cpu":"1.0005"}`:                                     "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"-1"}`:                                         "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"1e9"}`:                                        "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"0"}`:                                          "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"0.005"}`:                                      "bad-request: ",
		`{"op":"allocate","id":"a","cpu":"1","class":"best"}`:                           `bad-request: class "best": want one of sensitive, flexible`,
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
		`{"op":"release","id":"` + strings.Repeat("x", 254) + `"}`:                      "bad-request: id of 254 bytes: want 253 at most",
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

// UnmarshalJSON reads fractions back, for the tests.
func (f *Fractions) UnmarshalJSON(text []byte) error {
	var parts map[int]hybrid.Milli
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	*f = Fractions{}
	for cpu := range cpuset.Max {
		if m, ok := parts[cpu]; ok {
			*f = append(*f, hybrid.Fraction{CPU: cpu, Milli: m})
		}
	}
	return nil
}

// TestResizeKeepsGuarantee: a guarantee given apart from the limit outlasts a
// resize that names none; one that was the limit follows it.
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
			t.Errorf("after %s %v are guaranteed, want %v", step.line, got, step.want)
		}
	}
}

// TestBadLineStops: the results before a bad line stand, and it is named.
func TestBadLineStops(t *testing.T) {
	s := session(t, "core:4 pu:1", hybrid.Options{})
	var got []string
	err := s.Run(strings.NewReader(`{"op":"allocate","id":"a","cpu":"1"}

{"op":"release","id":"b"}
oops
{"op":"release","id":"a"}`), func(r Result) error { got = append(got, r.Op+r.ID); return nil })
	var lineErr *LineError
	if !errors.As(err, &lineErr) || err.Error() != "line 4: want a JSON object, got oops" || fmt.Sprint(got) != "[allocatea releaseb]" {
		t.Errorf("%v after %v", err, got)
	}
	if _, there := s.Node.Grant("a"); !there {
		t.Error("a line after the bad one was applied")
	}
}

// TestHistories applies random operations: every line gives one line of JSON
// that says what the node is, and the changes told are all that changed.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := topology.Parse(rapid.SampledFrom([]string{"core:2", "core:4 pu:2", "pack:2 l3:2 core:2 pu:2"}).Draw(t, "machine"))
		if err != nil {
			t.Fatal(err)
		}
		options := hybrid.Options{Algorithm: rapid.SampledFrom([]hybrid.Algorithm{hybrid.Candor, hybrid.Paper}).Draw(t, "algorithm")}
		node, err := hybrid.NewNode(m, options)
		if err != nil {
			t.Fatal(err)
		}
		s := &Session{Node: node, Explain: true}
		told := map[string]string{} // what each container was last told to have
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			line := genLine(t)
			var out bytes.Buffer
			if err := s.Run(strings.NewReader(line), func(r Result) error { return r.WriteJSON(&out) }); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			var r Result
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || strings.Count(out.String(), "\n") != 1 {
				t.Fatalf("%s: %s%v", line, out.String(), err)
			}
			if !r.OK {
				if r.Error == "" || r.Reason == "" || r.Grant != nil || r.State != nil {
					t.Fatalf("%s: %s", line, out.String())
				}
				continue
			}
			follow(t, &r, told)
			check(t, node, &r, told)
		}
	})
}

// follow takes over what a result says of containers.
func follow(t *rapid.T, r *Result, told map[string]string) {
	switch {
	case r.Op == "release" && r.Grant == nil:
		delete(told, r.ID)
	case r.Op != "release" && r.Grant != nil:
		told[r.ID] = fmt.Sprint(r.Grant.CPUs, r.Grant.Exclusive, r.Grant.Fractions)
	default:
		t.Fatalf("%s with grant %v", r.Op, r.Grant)
	}
	for _, c := range r.Changes {
		if c.ID == r.ID {
			t.Fatalf("%s is told as a change of its own", r.ID)
		}
		exclusive := cpuset.Set{}
		if c.Exclusive != nil {
			exclusive = *c.Exclusive
		}
		if (c.Exclusive == nil) != (c.Fractions == nil) {
			t.Fatalf("change %+v", c)
		}
		told[c.ID] = fmt.Sprint(c.CPUs, exclusive, c.Fractions)
	}
}

// check compares the node with what has been told.
func check(t *rapid.T, node *hybrid.Node, r *Result, told map[string]string) {
	grants := node.Grants()
	if len(grants) != len(told) {
		t.Fatalf("%d containers, told %v", len(grants), told)
	}
	for i := range grants {
		now := newGrant(&grants[i])
		if got := fmt.Sprint(now.CPUs, now.Exclusive, now.Fractions); got != told[grants[i].ID] {
			t.Fatalf("%s has %s, told %s", grants[i].ID, got, told[grants[i].ID])
		}
	}
	pools := node.Pools()
	if r.Pools != (Pools{pools.Exclusive, pools.Fractional, pools.Shared}) || r.SharedMilli != int64(node.Shared()) {
		t.Fatalf("pools %v, told %v", pools, r.Pools)
	}
	for _, c := range r.Changes {
		said := false
		for _, step := range r.Explain {
			said = said || strings.Contains(step.Text, c.ID)
		}
		if !said {
			t.Fatalf("the explanation of %s %s does not mention %s: %v", r.Op, r.ID, c.ID, r.Explain)
		}
	}
}

// genLine draws an operation that is more often than not possible.
func genLine(t *rapid.T) string {
	op := map[string]string{
		"op": rapid.SampledFrom([]string{"allocate", "allocate", "allocate", "release", "resize"}).Draw(t, "op"),
		"id": rapid.SampledFrom([]string{"aa", "bb", "cc", "dd", "ee", "ff", "gg"}).Draw(t, "id"),
	}
	if op["op"] != "release" {
		op["cpu"] = fmt.Sprintf("%dm", 50*rapid.IntRange(0, 60).Draw(t, "cpu"))
	}
	if op["op"] == "allocate" {
		op["class"] = rapid.SampledFrom([]string{"sensitive", "flexible"}).Draw(t, "class")
		op["policy"] = rapid.SampledFrom([]string{"strict", "best-effort"}).Draw(t, "policy")
		op["topology"] = rapid.SampledFrom([]string{"prefer", "single-numa", "single-l3", "whole-cores", "none"}).Draw(t, "topology")
		if op["class"] == "flexible" && rapid.Bool().Draw(t, "has request") {
			op["request"] = fmt.Sprintf("%dm", 50*rapid.IntRange(0, 20).Draw(t, "request"))
		}
	}
	line, err := json.Marshal(op)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}
