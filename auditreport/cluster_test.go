package auditreport

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/podname"
)

// row returns a row of a pod's container that differs.
func row(namespace, pod string, lost float64, gain Gain) Row {
	name := podname.Name{Namespace: namespace, Pod: pod, Container: "app"}
	return Row{Name: name.String(), Parts: name, ID: "0123", CPUs: cpuset.Of(0, 1), Sees: 2, SeesFiles: 4, Limit: 1500, Threads: 8,
		Periods: 100, ThrottledPeriods: 40, Throttled: 0.4, ThrottledTime: lost, Differs: true, Gain: gain}
}

// output returns the JSON of candor audit.
func output(t *testing.T, rows ...Row) []byte {
	t.Helper()
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// audited returns the audit of three nodes. The last node has not answered.
func audited(t *testing.T, all bool) *Cluster {
	t.Helper()
	equal := row("shop", "cache", 0, No)
	equal.Differs = false
	b := Builder{All: all}
	b.Add("node-3", "", nil, errors.New("no answer within 12s"))
	b.Add("node-1", "tools/candor-audit-x", output(t, row("shop", "web", 3600, Likely), equal, row("tools", "candor-audit-x", 0, No)), nil)
	b.Add("node-2", "candor-system/candor-y", output(t, row("batch", "job", 7300, Maybe), Row{Name: "=cmd\x1b[31m", Sees: 4, Limit: 1000, Differs: true, Gain: "huge"}), nil)
	return b.Cluster()
}

const text = `NODE    CONTAINER      SEES  LIMIT  THREADS  THROTTLED  LOST  GAIN
node-2  batch/job/app  2/4   1500m  8        40%        2h    maybe
node-1  shop/web/app   2/4   1500m  8        40%        60m   likely
1 more; --rows 0 lists all containers.

NAMESPACE  CONTAINERS  DIFFER  LIKELY GAIN  LOST
batch      1           1       0            2h
shop       2           1       1            60m
(no pod)   1           1       0            0s

NODE WITHOUT ANSWER  REASON
node-3               no answer within 12s

3 of 4 containers see a CPU count that differs from the limit, 1 would likely gain, 3h of CPU time are lost. 2 of 3 nodes answered.
`

// TestText: the containers and namespaces with the most lost time come first. The pod in which candor ran is no container of the
// cluster.
func TestText(t *testing.T) {
	var out bytes.Buffer
	if err := audited(t, false).Text(&out, TextOptions{Rows: 2}); err != nil || out.String() != text {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestFormats: JSON and CSV have all containers, and names from nodes are neither formulas nor markup.
func TestFormats(t *testing.T) {
	c := audited(t, true)
	var out bytes.Buffer
	if err := c.CSV(&out); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(lines) != 5 || len(lines[0]) != len(csvTitles) || lines[1][1] != "batch" || lines[3][4] != `'=cmd\x1b[31m` && lines[4][4] != `'=cmd\x1b[31m` {
		t.Errorf("%v: %q", err, lines)
	}
	c.Containers[0].Name, c.Nodes[2].Problem = "<img src=x onerror=alert(1)>", "</table><script>"
	out.Reset()
	if err := c.HTML(&out); err != nil || strings.Contains(out.String(), "<img") || strings.Contains(out.String(), "<script") || !strings.Contains(out.String(), "&lt;img") {
		t.Errorf("%v\n%s", err, out.String())
	}
	encoded, err := json.Marshal(c)
	var again Cluster
	if err != nil || json.Unmarshal(encoded, &again) != nil || len(again.Containers) != 4 || again.Nodes[0].Containers != 2 || again.Total() != c.Total() {
		t.Errorf("%v\n%s", err, encoded)
	}
}

// TestBadOutput: output that candor does not print is the problem of its node, and does not count.
func TestBadOutput(t *testing.T) {
	for _, bad := range []string{"", "null", "{}", "[", `[{"name":"a","limitMilli":-1}]`, `[{"name":"a","threads":1e99}]`, `[{"name":"a","throttledShare":2}]`, `[{}]`, `[{"name":"a","cpus":"x"}]`, "candor: command not found"} {
		var b Builder
		b.Add("node-1", "", []byte(bad), nil)
		if c := b.Cluster(); c.Nodes[0].Problem == "" || len(c.Containers) != 0 {
			t.Errorf("%q: %+v, want a problem", bad, c)
		}
	}
	b := Builder{All: true}
	b.Add("node-1", "", []byte(`[{"name":"a","later":{"x":1}}]`), nil)
	if c := b.Cluster(); c.Nodes[0].Problem != "" || len(c.Containers) != 1 {
		t.Errorf("unknown field: %+v, want one container", c)
	}
}

// FuzzAdd: any output of a node is read or refused, and all formats can be written.
func FuzzAdd(f *testing.F) {
	f.Add([]byte(`[{"name":"a","cpus":"0-1","sees":2,"limitMilli":1500,"throttledSeconds":1e300,"gain":"likely"}]`))
	f.Add([]byte(`[{"name":"a"},null]`))
	f.Fuzz(func(t *testing.T, output []byte) {
		b := Builder{All: true}
		b.Add("node-1", "", output, nil)
		c := b.Cluster()
		var out bytes.Buffer
		for name, err := range map[string]error{"text": c.Text(&out, TextOptions{Width: 80}), "CSV": c.CSV(&out), "HTML": c.HTML(&out)} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
