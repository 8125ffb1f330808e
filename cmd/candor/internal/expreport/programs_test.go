package expreport

import (
	"strings"
	"testing"

	"github.com/candor-project/candor/experiment"
)

// together returns two programs. The second has no runs under the last setup, and a name with HTML and
// Markdown characters.
func together(t *testing.T) Programs {
	t.Helper()
	one, two := sample().Report, sample().Report
	one.Name, two.Name = "one", "<b>|two"
	one.Metrics = one.Metrics[:1]
	two.Setups = two.Setups[:2]
	var runs []experiment.Run
	for _, run := range two.Runs {
		if run.Setup < 2 {
			runs = append(runs, run)
		}
	}
	two.Runs = runs
	p, err := experiment.Together([]*experiment.Report{one, two})
	if err != nil {
		t.Fatal(err)
	}
	return Programs{p}
}

func TestPrograms(t *testing.T) {
	p := together(t)
	var text, markdown strings.Builder
	if err := p.Text(&text, 0); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	for i, want := range []string{
		"PROGRAM METRIC RUNS QUOTA CANDOR NONE",
		"one time, s (lower is better) 8 2.035 1.966 (1.943 to 1.990) -",
		`<b>|two rate: (\d+) (higher is better) 8 500000 2.000 (2.000 to 2.000) -`,
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := p.Markdown(&markdown); err != nil || strings.Contains(markdown.String(), "<b>") || !strings.Contains(markdown.String(), `| &lt;b>\|two |`) {
		t.Errorf("%v:\n%s", err, markdown.String())
	}
}
