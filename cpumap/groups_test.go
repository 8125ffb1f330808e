package cpumap

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// TestGroups: each format shows the cgroups that limit containers or reserve CPUs. Control characters in
// their names are escaped.
func TestGroups(t *testing.T) {
	machine, err := topology.Parse("core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	node, err := hybrid.NewNode(machine, hybrid.Options{Reserved: cpuset.Of(0)})
	if err != nil {
		t.Fatal(err)
	}
	m := FromNode(node)
	m.Limits = []GroupLimit{{"/evil\x1b[2J\n", 1000, []string{"web", "log"}}, {"/m.slice", 2500, []string{}}}
	m.Reservations = []Reservation{{"/special", cpuset.Of(0)}}
	var text, svg, data strings.Builder
	for _, err := range []error{m.Text(&text, TextOptions{Columns: 100}), m.SVG(&svg), m.JSON(&data)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"limited to 1 CPU by /evil", ": web, log.", "Limited to 2.5 CPUs by /m.slice.", "Reserved by /special: CPU 0."} {
		for name, got := range map[string]string{"text": text.String(), "SVG": svg.String()} {
			if !strings.Contains(got, want) && !strings.Contains(got, "L"+want[1:]) {
				t.Errorf("%s: want %q in\n%s", name, want, got)
			}
		}
	}
	if !strings.Contains(svg.String(), "CPU 0: reserved by /special") {
		t.Errorf("the SVG does not show the cgroup that reserves CPU 0:\n%s", svg.String())
	}
	if strings.Contains(text.String(), "\x1b") || strings.Contains(svg.String(), "\x1b") {
		t.Error("the output contains an escape sequence")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(data.String())); err != nil {
		t.Fatal(err)
	}
	if want := `"limitedBy":[{"group":"/evil\u001b[2J\n","limitMilli":1000,"containers":["web","log"]},{"group":"/m.slice","limitMilli":2500,"containers":[]}],"reservedBy":[{"group":"/special","cpus":"0"}]`; !strings.Contains(compact.String(), want) {
		t.Errorf("JSON: want %s in\n%s", want, &compact)
	}
}
