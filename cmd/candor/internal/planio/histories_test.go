package planio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// TestHistories applies random operations. Each line gives a single line of JSON, and the reported grants and
// pools equal those of the node.
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
		reported := map[string]string{} // last reported grant by container
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			line := drawLine(t)
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
			follow(t, &r, reported)
			check(t, node, &r, reported)
		}
	})
}

// follow updates the reported grants with the changes in a result.
func follow(t *rapid.T, r *Result, reported map[string]string) {
	switch {
	case r.Op == "release" && r.Grant == nil:
		delete(reported, r.ID)
	case r.Op != "release" && r.Grant != nil:
		reported[r.ID] = fmt.Sprint(r.Grant.CPUs, r.Grant.Exclusive, r.Grant.Fractions)
	default:
		t.Fatalf("%s with grant %v", r.Op, r.Grant)
	}
	for _, c := range r.Changes {
		if c.ID == r.ID {
			t.Fatalf("%s is listed in the changes of its operation", r.ID)
		}
		exclusive := cpuset.Set{}
		if c.Exclusive != nil {
			exclusive = *c.Exclusive
		}
		if (c.Exclusive == nil) != (c.Fractions == nil) {
			t.Fatalf("change %+v", c)
		}
		reported[c.ID] = fmt.Sprint(c.CPUs, exclusive, c.Fractions)
	}
}

// check compares the grants and pools of the node with the reported values.
func check(t *rapid.T, node *hybrid.Node, r *Result, reported map[string]string) {
	grants := node.Grants()
	if len(grants) != len(reported) {
		t.Fatalf("%d containers, reported %v", len(grants), reported)
	}
	for i := range grants {
		now := newGrant(&grants[i])
		if got := fmt.Sprint(now.CPUs, now.Exclusive, now.Fractions); got != reported[grants[i].ID] {
			t.Fatalf("%s has %s, reported %s", grants[i].ID, got, reported[grants[i].ID])
		}
	}
	pools := node.Pools()
	if r.Pools != (Pools{pools.Exclusive, pools.Fractional, pools.Shared}) || r.SharedMilli != int64(node.Shared()) {
		t.Fatalf("pools %v, reported %v", pools, r.Pools)
	}
	for _, c := range r.Changes {
		mentioned := false
		for _, step := range r.Explain {
			mentioned = mentioned || strings.Contains(step.Text, c.ID)
		}
		if !mentioned {
			t.Fatalf("the explanation of %s %s does not mention %s: %v", r.Op, r.ID, c.ID, r.Explain)
		}
	}
}

// drawLine draws an operation that the node can usually perform.
func drawLine(t *rapid.T) string {
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

// UnmarshalJSON parses the fractions of a result.
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
