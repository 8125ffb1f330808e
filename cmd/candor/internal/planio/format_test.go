package planio

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/golden"
)

// TestFormat compares the results of each operations file in testdata with its .out file, byte by byte.
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
		golden.Check(t, strings.TrimSuffix(file, "jsonl")+"out", got)
	}
}

// TestEncoding compares the JSON of results that do not depend on the allocator.
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
			`{"op":"allocate","id":"web","ok":true,"grant":{"cpus":"0-3","exclusive":"0-2","fractionsMilli":{"3":500},"quotaMilli":3500},` +
				`"changes":[{"id":"log","cpus":"4-15"},{"id":"db","cpus":"16-18","exclusive":"16-17","fractionsMilli":{"18":500}}],` +
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
			`{"op":"resize","id":"a","ok":true,"grant":{"cpus":"","exclusive":"","fractionsMilli":{"9":1,"10":2}},"changes":[],` +
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
