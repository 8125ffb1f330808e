package ledgertables

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"
)

// measured returns the cells of settings with made-up results: run r of a cell has the r-th factor.
func measured(s Settings, factors ...float64) map[Cell]Result {
	cells := map[Cell]Result{}
	for _, c := range s.Plan() {
		f := factors[c.Run]
		r := Result{Own: 0.2 * f, Helpers: 0.3, LogRate: 2e6, Delay: Delay{Count: 9, Median: time.Duration(f * 4e6), P99: time.Duration(f * 8e6)}}
		if c.Experiment == E2 {
			r = Result{Events: 50 * f, Delay: r.Delay}
		}
		if c.Program == DD {
			r = Result{Events: 100}
		}
		cells[c] = r
	}
	return cells
}

// TestTables: rows have the median, lowest and highest value of the runs, and ratios to dd alone under the same engine.
func TestTables(t *testing.T) {
	s := parse(t, "none charge A_podman B_podman", "3", "")
	cells := measured(s, 1, 3, 2)
	for c := range cells {
		if c.Column == "B_podman" || c.Column == "charge" && c.Program == "echo" {
			delete(cells, c)
		}
		if c.Column == "none_podman" {
			cells[c] = Result{Events: 200}
		}
	}
	text := s.Tables(cells)
	for _, want := range []string{
		"\nCPU use of the container and of the helpers, %:\n\n| quota | program | none | charge | A_podman |\n| --- | --- | --- | --- | --- |\n",
		"| 33 ms | `yes` | 70.0 (50.0 to 90.0) | 70.0 (50.0 to 90.0) | 70.0 (50.0 to 90.0) |\n",
		"| 33 ms | `yes` | 40.0 (20.0 to 60.0) | 40.0 (20.0 to 60.0) | 40.0 (20.0 to 60.0) |\n",
		"| 33 ms | `echo` | 2000 (2000 to 2000) | - | 2000 (2000 to 2000) |\n",
		"| 33 ms | `echo` | 16.0 (8.0 to 24.0) | - | 16.0 (8.0 to 24.0) |\n",
		"| N | program | paper, none | paper, patch | none | charge | A_podman |\n",
		"| 3 | `lsmod` | 0.71 | 0.83 | 1.00 (0.50 to 1.50) | 1.00 (0.50 to 1.50) | 0.50 (0.25 to 0.75) |\n",
		"| 4 | `echo` | 0.70 | - | 1.00 (0.50 to 1.50) | - | 0.50 (0.25 to 0.75) |\n",
		"\nDelay of the log, median in ms:\n\n| N | program | none | charge | A_podman |\n",
		"| 5 | `echo` | 8.0 (4.0 to 12.0) | - | 8.0 (4.0 to 12.0) |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no row %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "B_podman") || strings.Contains(text, "NaN") {
		t.Error(text)
	}
}

// TestTablesOfOneRun: a single run has no spread. Cells of another duration do not count, and a figure that no column has gets no table.
func TestTablesOfOneRun(t *testing.T) {
	s := parse(t, "none", "1", "")
	cells := measured(s, 1)
	maps.Copy(cells, measured(parse(t, "none", "1", "1"), 9))
	for c, r := range cells {
		if r.LogRate = 0; c.Experiment == E1 && c.Program == "echo" {
			r.Delay = Delay{}
		}
		cells[c] = r
	}
	text := s.Tables(cells)
	for _, want := range []string{
		"| 20 ms | `yes` | 50.0 |\n",
		"| 20 ms | `yes` | 8.0 |\n| 20 ms | `lsmod` | 8.0 |\n| 20 ms | `echo` | - |\n",
		"| 2 | `yes` | 0.50 | 0.95 | 0.50 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no row %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "kB/s") {
		t.Errorf("a table without figures in\n%s", text)
	}
	if got := s.Tables(nil); got != "No cell is measured.\n" {
		t.Errorf("%q", got)
	}
}

// TestMedian: the median of an even number of runs is the mean of the two in the middle.
func TestMedian(t *testing.T) {
	s := parse(t, "none", "4", "")
	got := summarize(measured(s, 1, 8, 2, 4), newE2(2, "yes").in("none", 10*time.Second), events)
	if want := (summary{150, 50, 400, 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := got.over(summary{}); got != (summary{}) {
		t.Errorf("%+v without a baseline", got)
	}
}

// TestWriteTables: the tables are in a file beside the cells.
func TestWriteTables(t *testing.T) {
	s := parse(t, "charge", "1", "")
	store := open(t, t.TempDir())
	for c, r := range measured(s, 1) {
		if err := store.Add(c, r); err != nil {
			t.Fatal(err)
		}
	}
	file, err := store.WriteTables(s)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != s.Tables(store.cells) || !strings.Contains(string(text), "| 2 | `yes` | 0.50 | 0.95 | 0.50 |\n") {
		t.Errorf("%v\n%s", err, text)
	}
}
