package cpumap

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/golden"
)

// TestSVG: the SVG is well-formed for any names, and shows each online CPU exactly once.
func TestSVG(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		var b bytes.Buffer
		if err := m.SVG(&b); err != nil {
			t.Fatal(err)
		}
		var drawn cpuset.Set
		inTitle := false
		for d := xml.NewDecoder(&b); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			switch token := token.(type) {
			case xml.StartElement:
				inTitle = token.Name.Local == "title"
			case xml.CharData:
				if !inTitle {
					continue
				}
				id, _, _ := strings.Cut(strings.TrimPrefix(string(token), "CPU "), ":")
				cpu, err := strconv.Atoi(id)
				if err != nil || drawn.Contains(cpu) {
					t.Fatalf("title %s", token)
				}
				drawn.Add(cpu)
				inTitle = false
			}
		}
		if drawn != m.Machine.Online {
			t.Fatalf("drawn %v, online %v", drawn, m.Machine.Online)
		}
	})
}

// TestUnstyledSVG: the unstyled picture has no style of its own, and is the picture of SVG together with SVGStyle.
func TestUnstyledSVG(t *testing.T) {
	var styled, unstyled strings.Builder
	if err := errors.Join(small(t).SVG(&styled), small(t).UnstyledSVG(&unstyled)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(unstyled.String(), "style") {
		t.Errorf("a style in the unstyled picture:\n%s", &unstyled)
	}
	if got := strings.Replace(styled.String(), "<style>\n"+SVGStyle+"\n</style>\n", "", 1); got != unstyled.String() {
		t.Errorf("another picture without the style sheet:\n%s\nwant\n%s", got, &unstyled)
	}
}

// TestSVGFits: the width of the SVG stays within its bounds for usual machines.
func TestSVGFits(t *testing.T) {
	for _, description := range []string{"pu:2", "pack:2 core:4 pu:2", "pack:2 numa:1 l3:4 core:8 pu:2",
		"pack:2 numa:4 l3:2 core:4 pu:2", "pack:2 numa:4 l3:2 core:16 pu:2", "pack:2 core:256"} {
		var b bytes.Buffer
		if err := full(t, description).SVG(&b); err != nil {
			t.Fatal(err)
		}
		var svg struct {
			Width int `xml:"width,attr"`
		}
		if err := xml.Unmarshal(b.Bytes(), &svg); err != nil || svg.Width > svgWidth+2*margin || svg.Width < minWidth {
			t.Errorf("%s: %d pixels wide, %v", description, svg.Width, err)
		}
	}
}

// TestJSON: in the JSON, each online CPU is in exactly one pool.
func TestJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		var b bytes.Buffer
		if err := m.JSON(&b); err != nil {
			t.Fatal(err)
		}
		var d Document
		if err := json.Unmarshal(b.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		var all cpuset.Set
		count := 0
		for _, s := range []cpuset.Set{d.Pools.Exclusive, d.Pools.Fractional, d.Pools.Shared, d.Reserved, d.Machine.Isolated} {
			all = all.Union(s)
			count += s.Count()
		}
		if all != m.Machine.Online || count != all.Count() || len(d.CPUs) != count || len(d.Containers) != len(m.Grants) {
			t.Fatalf("%s", b.String())
		}
	})
}

func TestGoldenJSONAndSVG(t *testing.T) {
	var b bytes.Buffer
	if err := small(t).JSON(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/small.json", b.String())
	b.Reset()
	if err := small(t).SVG(&b); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/small.svg", b.String())
}
