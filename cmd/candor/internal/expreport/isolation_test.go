package expreport

import (
	"errors"
	"strings"
	"testing"

	"github.com/candor-project/candor/experiment"
)

// isolation returns a report with a failed run, an application without successful runs, and names with HTML
// and Markdown characters.
func isolation() Isolation {
	r := &experiment.IsolationReport{
		Machine: sample().Machine, Tmp: "/var/tmp", FileSystem: "ext4", Split: experiment.Split{Application: 1000, Stressor: 1000},
		Applications: []experiment.Application{{Name: "route <b>", Command: []string{"./x", "<script>|`*"}}, {Name: "none", Command: []string{"./y"}}},
		Stressors:    []experiment.Stressor{{Name: "cpu", Command: []string{"stress-ng", "-c", "25"}}, {Name: "io", Command: []string{"stress-ng", "-d", "8"}, Counts: experiment.CountsWrites}},
		Cases:        []experiment.Case{experiment.CaseTogether, experiment.CasePinned}, Rounds: 10, Seed: 1,
	}
	for round := range 10 {
		for c, slow := range []float64{13, 1} {
			for stressor := -1; stressor < 2; stressor++ {
				run := experiment.IsolationRun{Case: c, Stressor: stressor, Round: round, Time: 2 + float64(c) + 0.01*float64(round)}
				if stressor >= 0 {
					run.Load = &experiment.Load{CPUs: 1.5, Rate: 3e8}
					run.Time *= slow
				}
				r.Runs = append(r.Runs, run)
			}
		}
	}
	r.Runs = append(r.Runs, experiment.IsolationRun{App: 1, Stressor: -1, Failure: "exit code 1: <b>no</b>"})
	return Isolation{r}
}

func TestIsolationText(t *testing.T) {
	var out strings.Builder
	if err := isolation().Text(&out, 0); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"together: isolates from 0 of 2 stressors; leaks beside cpu, io; slowdown 13.00 on average, at worst 13.00 (bounds: 13.00 to 13.00) for route <b> beside cpu",
		"together no limit no limit, in the same group", "pinned CPUs of its own: 1 the other CPUs: 1",
		"cpu 1.50 CPUs 1.50 CPUs io 1.50 CPUs, 300 MB/s written 1.50 CPUs, 300 MB/s written",
		"together cpu leaks 1 of 1 13.000 route <b> 13.000 (13.000 to 13.000) 13.000",
		"pinned io uncertain 0 of 1 1.000", // an application has no successful runs
		"route <b> pinned alone 10 3.045 3.022 to 3.067 - - 1.489 (1.483 to 1.495) 0 %",
		"route <b> pinned cpu 10 3.045 3.022 to 3.067 1.000 (1.000 to 1.000) isolated - 0 %",
		"1 run failed; the first: none alone, together: exit code 1: <b>no</b>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestIsolationMarkup: names and failures are escaped in HTML and Markdown.
func TestIsolationMarkup(t *testing.T) {
	r := isolation()
	var page, text strings.Builder
	if err := errors.Join(r.HTML(&page), r.Markdown(&text)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>|", "<b>"} {
		if strings.Contains(page.String(), bad) || strings.Contains(text.String(), bad) {
			t.Errorf("the output contains %s", bad)
		}
	}
	if n := strings.Count(page.String(), "<svg"); n != 2 {
		t.Errorf("%d pictures in the page, want 2", n)
	}
}

// TestNarrowStressors: on a narrow terminal, the table of the stressors has the first cases, and names the others.
func TestNarrowStressors(t *testing.T) {
	r := isolation()
	r.Cases = append(r.Cases, experiment.CaseCandor, experiment.CaseBurst)
	var out strings.Builder
	table := r.stressorTable()
	table.textRows(&out, 80)
	rows, hidden, _ := strings.Cut(out.String(), "Hidden: ")
	for line := range strings.Lines(rows) {
		if len(line) > 81 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
	if !strings.HasPrefix(rows, "STRESSOR  TOGETHER ") || hidden != "CANDOR, CANDOR+BURST. Use -o wide for all columns.\n" {
		t.Errorf("got\n%s", &out)
	}
}
