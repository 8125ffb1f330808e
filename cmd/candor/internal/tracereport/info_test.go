package tracereport

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/golden"
	"github.com/candor-project/candor/trace"
)

// summaries reads traces.
func summaries(t *testing.T, specs ...string) []*trace.Summary {
	t.Helper()
	var list []*trace.Summary
	for _, spec := range specs {
		r, err := trace.Open(spec, trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := trace.Summarize(r, 16)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// fixtures are the fixtures of package trace, one of each kind.
var fixtures = []string{"google2011:../../../../trace/testdata/google", "csv:../../../../trace/testdata/plain/trace.csv", "kubectl:../../../../trace/testdata/kubectl"}

// TestText: the table of traces beside each other.
func TestText(t *testing.T) {
	for name, ascii := range map[string]bool{"three.txt": false, "three.ascii.txt": true} {
		var out bytes.Buffer
		if err := Text(&out, summaries(t, fixtures...), 0, ascii); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/"+name, out.String())
		if ascii && strings.ContainsAny(out.String(), "▁█") {
			t.Error("blocks in ASCII")
		}
	}
}

// TestNarrowText: if the table of several traces is wider than the terminal, each trace has a table of its own.
func TestNarrowText(t *testing.T) {
	all := summaries(t, fixtures...)
	var wide, narrow bytes.Buffer
	for out, width := range map[*bytes.Buffer]int{&wide: 200, &narrow: 80} {
		if err := Text(out, all, width, true); err != nil {
			t.Fatal(err)
		}
	}
	tables, _, _ := strings.Cut(narrow.String(), "\nrequested CPU / capacity of")
	for line := range strings.Lines(tables) {
		if n := len(strings.TrimRight(line, " \n")); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if strings.Count(tables, "machines at the start") != len(all) || strings.Count(wide.String(), "machines at the start") != 1 {
		t.Errorf("80 columns:\n%s\n200 columns:\n%s", &narrow, &wide)
	}
}

// TestEmpty: a trace without events has a summary too.
func TestEmpty(t *testing.T) {
	s, err := trace.Summarize(trace.NewMemory(trace.Header{Name: "none"}, nil), 16)
	if err != nil {
		t.Fatal(err)
	}
	for _, write := range []func(io.Writer) error{
		func(w io.Writer) error { return Text(w, []*trace.Summary{s}, 80, false) },
		func(w io.Writer) error { return SVG(w, []*trace.Summary{s}) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil || strings.Contains(out.String(), "NaN") {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}

// TestSVG: the picture is XML, names cannot break it, and has a line for each
// trace's load.
func TestSVG(t *testing.T) {
	list := summaries(t, fixtures...)
	list[0].Header.Name = `<b>&"` + "\x1b[31m"
	var out bytes.Buffer
	if err := SVG(&out, list); err != nil {
		t.Fatal(err)
	}
	lines := 0
	d := xml.NewDecoder(bytes.NewReader(out.Bytes()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	// Loads, and the requests of new containers and of those of the start:
	// kubectl's are all of the start.
	if lines != 3+2+2+1 {
		t.Errorf("%d lines", lines)
	}
}

// TestWords: numbers as people write them.
func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		count(0): "0", count(999): "999", count(1000): "1,000", count(1234567): "1,234,567", count(-1000): "-1,000",
		span(0): "0 s", span(0.5): "0.5 s", span(100): "100 s", span(120): "2 min", span(5400): "90 min", span(7200): "2 h", span(86400): "24 h", span(864000): "10 d",
		short(0.81728): "0.817", short(1234): "1234", short(125514): "125514",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
