package expreport

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/engine/client"
	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/interference"
)

// sample returns a report with failed runs, a metric named by its pattern, and text with HTML and Markdown
// characters.
func sample() Report {
	r := &experiment.Report{
		Version: 1, Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Command: []string{"./x", "<script>|`*"}, Timeout: 60,
		Machine: experiment.Machine{Model: "A <script> CPU\x1b[2J", CPUs: 2, Topology: "core:2", Kernel: "6.1", Load: "0.00"},
		Metrics: []experiment.ReportMetric{{Name: "time", Unit: "s"}, {Name: `rate: (\d+)`, HigherIsBetter: true}},
		Setups:  []experiment.Setup{{Kind: experiment.Quota, Limit: 1500}, {Kind: experiment.Candor, Limit: 1500}, {Kind: experiment.None}},
		Rounds:  8, Seed: 1,
	}
	for round := range 8 {
		for setup, time := range []float64{2, 1} {
			r.Runs = append(r.Runs, experiment.Run{Setup: setup, Round: round, Periods: 10, Throttled: uint64(5 * (1 - setup)),
				Values: map[string]float64{"time": time + 0.01*float64(round), `rate: (\d+)`: 1e6 / time}})
		}
		r.Runs = append(r.Runs, experiment.Run{Setup: 2, Round: round, Failure: "exit code 1: <b>no</b>"})
	}
	return Report{r}
}

func TestText(t *testing.T) {
	var out strings.Builder
	if err := sample().Text(&out, 0); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"time, s (lower is better)\n", "(\\d+) (higher is better)\n", "8 rounds of none failed; the first: exit code 1: <b>no</b>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if want := "candor has better rate"; !strings.HasPrefix(text, want) {
		t.Errorf("begins with %.80q, want %q", text, want)
	}
	rows := map[string][]string{}
	_, tables, _ := strings.Cut(text, "SETUP")
	for line := range strings.SplitSeq(tables, "\n") {
		if fields := strings.Fields(line); len(fields) > 5 && rows[fields[0]] == nil {
			rows[fields[0]] = fields
		}
	}
	if got, want := fmt.Sprint(rows["candor"]), "[candor 1500m 8 0 1.035 1.018 to 1.052 8 0.509 "; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s…", got, want)
	}
	if got := rows["candor"]; got[13] != "0.0078" || got[14] != "-1.000" || got[15] != "0" { // 2 of 2^8 sign patterns
		t.Errorf("%v, want p 0.0078, delta -1, throttled 0 %%", got)
	}
	if got := rows["none"]; got[3] != "8" || got[4] != "-" {
		t.Errorf("%v, want 8 failed and no median", got)
	}
}

// TestWarning: a warning about other processes is the first line of each report.
func TestWarning(t *testing.T) {
	foreign := &interference.Report{CPUs: 2, UseMilli: 460, Largest: &interference.Process{PID: 4711, Name: "<i>|", UseMilli: 400}}
	compared, isolated := sample(), isolation()
	compared.Interference, isolated.Interference = foreign, foreign
	for name, r := range map[string]interface {
		Text(io.Writer, int) error
		Markdown(io.Writer) error
		HTML(io.Writer) error
	}{"compare": compared, "isolate": isolated} {
		var text, markdown, page strings.Builder
		if err := errors.Join(r.Text(&text, 80), r.Markdown(&markdown), r.HTML(&page)); err != nil {
			t.Fatal(err)
		}
		const want = "Warning: other processes used 23 % of the CPUs of this measurement; the largest that still runs is <i>| (pid 4711) with 20 %\n"
		if !strings.HasPrefix(text.String(), want) {
			t.Errorf("%s: begins with %.200q", name, text.String())
		}
		if !strings.Contains(markdown.String(), "\n- Warning: other processes used 23") || !strings.Contains(page.String(), ">Warning: other processes used 23") {
			t.Errorf("%s: no warning in\n%s\n%.2000s", name, &markdown, &page)
		}
		if strings.Contains(markdown.String(), "<i>|") || strings.Contains(page.String(), "<i>|") {
			t.Errorf("%s: the name of the process is not escaped", name)
		}
	}
}

// TestMarkup: texts are escaped in HTML and Markdown.
func TestMarkup(t *testing.T) {
	r := sample()
	var page, text strings.Builder
	if err := errors.Join(r.HTML(&page), r.Markdown(&text)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>", "<b>no"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if strings.Contains(text.String(), "<b>") || strings.Contains(text.String(), "<script> CPU") {
		t.Errorf("the text has markup:\n%s", text.String())
	}
	if n := strings.Count(page.String(), "<svg"); n != 2 {
		t.Errorf("%d pictures in the page, want 2", n)
	}
	if n := strings.Count(page.String(), "<tr>"); n < 24+2*3 {
		t.Errorf("%d rows in the page", n)
	}
}

// TestPage: the page begins with the verdicts, explains the setups, names the rounds for warm-up, and counts in words.
func TestPage(t *testing.T) {
	r := sample()
	r.Runs = append(r.Runs, experiment.Run{Setup: 1, Round: -1, Values: map[string]float64{"time": 9}}, experiment.Run{Setup: 0, Round: 7, Failure: "killed"})
	var page strings.Builder
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	verdict, table := strings.Index(page.String(), `<p class="verdict">candor has better rate`), strings.Index(page.String(), "<table")
	if verdict < 0 || verdict > table {
		t.Errorf("the verdict is at %d, the first table at %d", verdict, table)
	}
	for _, want := range []string{
		"<td>quota</td><td>CFS quota, as with docker run --cpus</td><td>all</td>", "<td>none</td><td>no limit</td><td>all</td>",
		"<td>candor</td><td>candor run --cpu</td><td>the CPUs of its cpuset, by affinity and by files</td>",
		"<td>warm-up</td>", "<p>1 round of quota failed; the first: killed</p>", "<p>8 rounds of none failed; the first: exit code 1",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %s in\n%s", want, page.String())
		}
	}
	if strings.Contains(page.String(), "<td>-1</td>") {
		t.Error("the page has a round -1")
	}
	if open, wide := strings.Count(page.String(), "<table"), strings.Count(page.String(), `<div class="wide"><table`); open != wide {
		t.Errorf("%d of %d tables can be wider than the page", open-wide, open)
	}
}

// TestSetupText: each kind of setup is explained.
func TestSetupText(t *testing.T) {
	for _, kind := range experiment.Kinds {
		if enforcement, visible := setupText(experiment.Setup{Kind: kind, Limit: 1500, Threads: 2}); enforcement == "" || visible == "" {
			t.Errorf("%s: %q, %q", kind, enforcement, visible)
		}
	}
	for text, want := range map[string]string{
		"2xcpuset":                  "2 simultaneous copies, each: exclusive CPUs, as many as the limit rounded up; a CFS quota if the limit has a fraction",
		"candor+topology=single-l3": "candor run --cpu --topology single-l3",
		"2xnone":                    "2 simultaneous copies, each: no limit",
	} {
		s, err := experiment.ParseSetup(text, 1500)
		if err != nil {
			t.Fatal(err)
		}
		if enforcement, _ := setupText(s); enforcement != want {
			t.Errorf("%s: %q, want %q", text, enforcement, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.03512: "1.035", 1234567: "1234567", 0.00012346: "0.0001235", 42.4242: "42.42", -3.14159: "-3.142"} {
		if got := number(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

// TestWorkloadText: the text describes a program, a server with its client, or an image with its options.
func TestWorkloadText(t *testing.T) {
	image := &experiment.Image{Name: "box", Flags: []string{"-v", "/a:/a"}, Engine: client.Engine{Name: "podman"}}
	for want, r := range map[string]experiment.Report{
		"xz -k big":                            {Command: []string{"xz", "-k", "big"}},
		"x: nginx, with wrk -d 5":              {Name: "x", Server: []string{"nginx"}, Command: []string{"wrk", "-d", "5"}},
		"podman run -v /a:/a box":              {Image: image},
		"solver: podman run -v /a:/a box -n 9": {Name: "solver", Image: image, Command: []string{"-n", "9"}},
	} {
		if got := (Report{&r}).workloadText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestPartial: a report whose measurement was stopped begins with this fact, in each format.
func TestPartial(t *testing.T) {
	report, cases := sample(), isolation()
	report.Stopped, cases.Stopped = true, true
	for name, r := range map[string]interface {
		Text(w io.Writer, width int) error
		Markdown(w io.Writer) error
		HTML(w io.Writer) error
	}{"compare": report, "isolate": cases} {
		var text, markdown, page strings.Builder
		if err := errors.Join(r.Text(&text, 0), r.Markdown(&markdown), r.HTML(&page)); err != nil {
			t.Fatal(err)
		}
		const want = "Partial result: the measurement was stopped; "
		if !strings.HasPrefix(text.String(), want) || !strings.Contains(markdown.String(), "\n- "+want) || !strings.Contains(page.String(), want) {
			t.Errorf("%s:\n%s\n%s", name, &text, &markdown)
		}
		if strings.Count(text.String(), want) != 1 {
			t.Errorf("%s: the note is repeated:\n%s", name, &text)
		}
	}
}
