package simreport_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"image/png"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/candor-project/candor/cmd/candor/internal/simreport"
	"github.com/candor-project/candor/simulate"
)

// report returns a report with two curves of two points each. The last point was stopped.
func report() *simreport.Report {
	r := &simreport.Report{Setting: simulate.Description{
		Trace: "csv:evil\x1b[2J.csv", Name: "csv", CoresOfLargest: 16, MachineCPUs: "rounded", Overcommit: 1.5, OvercommitIs: "CPUs", AtStart: "placed", Seed: 7,
	}}
	for _, algorithm := range []string{"candor", "paper"} {
		for _, share := range []float64{0.9, 0.125} {
			r.Points = append(r.Points, simulate.Result{Algorithm: algorithm, Policy: "strict", Scheduler: algorithm,
				Sensitive: share, S: share / 4, Placed: 1234567, Timing: simulate.Timing{DecisionMean: 0.9e-6, DecisionP50: 0.7e-6, DecisionP99: 9e-6}})
		}
	}
	r.Points[3].Stopped, r.Points[3].TraceSeconds = true, 9000
	return r
}

func text(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestNarrowText: on a terminal of 80 columns, the table has the settings of each point and its most important results.
func TestNarrowText(t *testing.T) {
	got := text(t, func(w io.Writer) error { return report().Text(w, 80) })
	_, table, _ := strings.Cut(got, "\n\n")
	for _, want := range []string{"ALGORITHM", "POLICY", "SCHEDULER", "SENSITIVE", "  S ", "  R", "\nHidden: ", ", EVENTS/s. Use -o wide for all columns.\n"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	rows, _, _ := strings.Cut(table, "Hidden: ")
	for line := range strings.Lines(rows) {
		if n := utf8.RuneCountInString(line); n > 81 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestText(t *testing.T) {
	got := text(t, func(w io.Writer) error { return report().Text(w, 0) })
	for _, want := range []string{"1.0 = 16 CPUs", "overcommit 1.5", "t = 0: placed", "seed 7", "12.5 %", "22.50 %", "1234567", "paper (stopped at 2.5 h)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Error("the text contains an escape sequence")
	}
	if lines := strings.Count(got, "\n"); lines != 4+1+1+4 {
		t.Errorf("%d lines", lines)
	}
}

// TestJSON: scripts read the JSON, so the names and the order of its fields must not change.
func TestJSON(t *testing.T) {
	got := text(t, report().JSON)
	last := -1
	for _, name := range []string{"setting", "points", "algorithm", "policy", "scheduler", "sensitiveShare", "s", "r", "placed", "refusedView", "refusedCapacity",
		"resubmitted", "loadShare", "moves", "decisionMeanSeconds", "decisionP50Seconds", "decisionP99Seconds", "eventsPerSecond", "replaySeconds"} {
		at := strings.Index(got[strings.Index(got, `"points"`)-1:], `"`+name+`":`)
		if name == "setting" {
			at = strings.Index(got, `"setting": {`)
		}
		if at < 0 || name != "setting" && name != "points" && at < last {
			t.Errorf("%q is at %d, after %d", name, at, last)
		}
		last = at
	}
	if empty := text(t, (&simreport.Report{}).JSON); !strings.Contains(empty, `"points": []`) {
		t.Errorf("without points: %s", empty)
	}
}

// TestPartial: a stopped simulation is marked in each format.
func TestPartial(t *testing.T) {
	r := report()
	table := func(w io.Writer) error { return r.Text(w, 0) }
	if got := text(t, table) + text(t, r.JSON); strings.Contains(strings.ToLower(got), "partial") {
		t.Errorf("a complete report is marked as partial:\n%s", got)
	}
	r.Partial = true
	const want = "Partial result: the simulation was stopped"
	if got := text(t, table); !strings.HasPrefix(got, want) {
		t.Errorf("text:\n%s", got)
	}
	if got := text(t, r.Markdown); !strings.HasPrefix(got, want) {
		t.Errorf("Markdown:\n%s", got)
	}
	if got := text(t, r.JSON); !strings.HasPrefix(got, "{\n  \"partial\": true,\n") {
		t.Errorf("JSON:\n%s", got)
	}
}

func TestCSV(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(text(t, report().CSV))).ReadAll()
	if err != nil || len(rows) != 5 {
		t.Fatalf("%d rows, error %v", len(rows), err)
	}
	for name, want := range map[string]string{"overcommit": "1.5", "coresOfLargest": "16", "atStart": "placed", "algorithm": "candor", "s": "0.225", "decisionMeanSeconds": "9e-7"} {
		if at := slices.Index(rows[0], name); at < 0 || rows[1][at] != want {
			t.Errorf("%s in column %d of %q, want %s", name, at, rows[1], want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	got := text(t, report().Markdown)
	var columns []int
	for line := range strings.SplitSeq(got, "\n") {
		if strings.HasPrefix(line, "|") {
			columns = append(columns, strings.Count(line, "|"))
		}
	}
	if len(columns) != 6 || slices.Min(columns) != slices.Max(columns) {
		t.Errorf("columns %v in\n%s", columns, got)
	}
}

func TestFigures(t *testing.T) {
	var names []string
	for _, f := range report().Files() {
		names = append(names, f.Name)
		got := text(t, f.Write)
		switch {
		case strings.HasSuffix(f.Name, ".png"):
			if m, err := png.Decode(strings.NewReader(got)); err != nil || m.Bounds().Dx() < 800 {
				t.Errorf("%s: %v", f.Name, err)
			}
		case strings.HasSuffix(f.Name, ".svg"):
			if err := xml.Unmarshal([]byte(got), new(struct{})); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
			wanted := []string{"Candor, strict", "Algorithm 1, strict", "overcommit 1.5"}
			if strings.HasPrefix(f.Name, "figure-5") {
				wanted = append(wanted, "all curves: their 99th percentile", ">5<") // a linear axis up to 20 has no such tick
			}
			for _, want := range wanted {
				if !strings.Contains(got, want) {
					t.Errorf("%s lacks %q", f.Name, want)
				}
			}
		case strings.HasSuffix(f.Name, ".json"):
			if err := json.Unmarshal([]byte(got), new(simreport.Report)); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
	want := []string{"table.csv", "table.md", "points.json", "figure-4a-shared-time.svg", "figure-4a-shared-time.png", "figure-4b-reject-rate.svg",
		"figure-4b-reject-rate.png", "figure-5-decision-time.svg", "figure-5-decision-time.png"}
	if !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
}

// TestPlanner: the text has the results of --size and --gain.
func TestPlanner(t *testing.T) {
	r := report()
	r.Target, r.Points[0].Machines = "s<5%,refused=0", 42
	r.Gain = simulate.Gain{Workloads: 3, Alone: 1.7, Shared: 1.1}.Estimate(r.Points)
	got := text(t, func(w io.Writer) error { return r.Text(w, 0) })
	for _, want := range []string{"for s<5%,refused=0:", "90 % sensitive: 42", "3 measured workloads", "77.5 % of their time unshared: 1.56 times as fast"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestSharedBound: if the second lines of all curves are the same, the figure shows them as one line that belongs to all curves.
func TestSharedBound(t *testing.T) {
	draw := func(r *simreport.Report) string {
		for _, f := range r.Files() {
			if f.Name == "figure-4b-reject-rate.svg" {
				return text(t, f.Write)
			}
		}
		t.Fatal("no figure")
		return ""
	}
	const own, all = ">its containers, rearranged freely<", ">all curves: their containers, rearranged freely<"
	r := report()
	if got := draw(r); strings.Count(got, all) != 1 || strings.Contains(got, own) {
		t.Errorf("equal bounds: no label for all curves in\n%s", got)
	}
	r.Points[0].RBound = 0.25
	if got := draw(r); strings.Count(got, own) != 2 || strings.Contains(got, all) {
		t.Errorf("different bounds: a label for all curves in\n%s", got)
	}
}
