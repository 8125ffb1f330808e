package expreport

import (
	"errors"
	"strings"
	"testing"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/interference"
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

// TestProgramsWarning: the warnings about other processes are the first lines, with the names of their programs.
func TestProgramsWarning(t *testing.T) {
	p := together(t)
	p.Programs.Programs[1].Interference = &interference.Report{CPUs: 1, UseMilli: 460, Setup: "candor"}
	var text, markdown, data strings.Builder
	if err := errors.Join(p.Text(&text, 0), p.Markdown(&markdown), p.Write(&data)); err != nil {
		t.Fatal(err)
	}
	if want := "Warning: <b>|two: other processes used 46 % of the CPU of the program under candor\nPROGRAM"; !strings.HasPrefix(text.String(), want) {
		t.Errorf("text:\n%s", &text)
	}
	if got := markdown.String(); !strings.Contains(got, "\n- Warning: &lt;b>") && !strings.Contains(got, "\n- Warning: &lt;b&gt;") || strings.Contains(got, "<b>") {
		t.Errorf("Markdown:\n%s", got)
	}
	if strings.Count(data.String(), `"interference"`) != 1 {
		t.Errorf("JSON:\n%s", &data)
	}
}

// TestTogetherKeepsInterference: reports that are combined keep the interference of each.
func TestTogetherKeepsInterference(t *testing.T) {
	one, two := sample().Report, sample().Report
	one.Name, two.Name, two.Interference = "one", "two", &interference.Report{CPUs: 1, UseMilli: 460}
	p, err := experiment.Together([]*experiment.Report{one, two})
	if err != nil || p.Programs[0].Interference != nil || p.Programs[1].Interference != two.Interference {
		t.Errorf("%+v, %v", p, err)
	}
}
