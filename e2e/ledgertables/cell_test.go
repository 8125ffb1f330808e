package ledgertables

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// parse returns the settings of a list of columns.
func parse(t *testing.T, columns, runs, work string) Settings {
	t.Helper()
	s, err := ParseSettings(columns, runs, work)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseSettings(t *testing.T) {
	if s := parse(t, "", "", ""); len(s.Columns) != len(Columns()) || s.Runs != 0 || s.Work != 0 {
		t.Errorf("%+v", s)
	}
	s := parse(t, " A_podman  charge", "2", "15")
	if len(s.Columns) != 2 || s.Columns[0] != (Column{"A_podman", Podman, A}) || s.Columns[1] != (Column{"charge", Containerd, Charge}) || s.Runs != 2 || s.Work != 15*time.Second {
		t.Errorf("%+v", s)
	}
	for _, test := range []struct{ columns, runs, work, want string }{
		{"A", "", "", `column "A": must be one of none, charge, none_podman, A_podman, B_podman, place_podman, none_nerdctl, `},
		{"", "0", "", `number of runs "0": must be a number from 1 to 1000`},
		{"", "x", "", `number of runs "x": must be a number from 1 to 1000`},
		{"", "", "10s", `seconds of a measurement "10s": must be a number from 1 to 1000`},
	} {
		if _, err := ParseSettings(test.columns, test.runs, test.work); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestPlan: each cell is planned once, runs and durations depend on the method, and each engine has its baseline.
func TestPlan(t *testing.T) {
	for _, test := range []struct {
		columns, runs, work string
		cells               int
	}{
		{"none", "", "", 3 * (12 + 12 + 4)},
		{"charge", "", "", 5*(12+12) + 3*4}, // with the baseline of none
		{"none charge", "1", "", 12 + 12 + 4 + 24},
		{"A_podman B_podman", "2", "1", 2 * (24 + 24 + 4)},
		{"patch", "2", "", 2 * (24 + 4)}, // with the baseline of none_guest
		{"", "1", "", 12*24 + 4*4},
	} {
		plan := parse(t, test.columns, test.runs, test.work).Plan()
		if len(plan) != test.cells {
			t.Errorf("%+v: %d cells", test, len(plan))
		}
		seen := map[Cell]bool{}
		for _, c := range plan {
			if seen[c] {
				t.Errorf("%+v: %s twice", test, c)
			}
			seen[c] = true
			want := 10 * time.Second
			if c.Column == "charge" {
				want = 30 * time.Second
			}
			if test.work != "" {
				want = time.Second
			}
			if c.Work != want || c.Program == DD && !strings.HasPrefix(c.Column, "none") || c.Experiment == E2 && c.Quota != Period/time.Duration(c.Containers) {
				t.Errorf("%+v: %+v", test, c)
			}
		}
	}
}

// TestParts: a part has the cells of an engine in a run, without measured cells.
func TestParts(t *testing.T) {
	plan := parse(t, "none none_podman", "2", "").Plan()
	isMeasured := func(c Cell) bool { return c.Column == "none" && c.Run == 0 || c.Program == "yes" }
	var got []Part
	for _, part := range NewProgress(plan, isMeasured).Parts() {
		for _, c := range part.Cells {
			if column, err := ColumnOf(c.Column); err != nil || column.Engine != part.Engine || c.Run != part.Run || isMeasured(c) {
				t.Errorf("%+v in the part %s, %d", c, part.Engine, part.Run)
			}
		}
		got = append(got, Part{part.Engine, part.Run, nil})
	}
	same := func(a, b Part) bool { return a.Engine == b.Engine && a.Run == b.Run }
	if want := []Part{{Podman, 0, nil}, {Containerd, 1, nil}, {Podman, 1, nil}}; !slices.EqualFunc(got, want, same) {
		t.Errorf("parts %v, want %v", got, want)
	}
}

// TestProgress: measured cells no longer count, and the remaining time follows the time that the cells took.
func TestProgress(t *testing.T) {
	plan := parse(t, "none", "1", "").Plan()
	done := plan[0]
	p := NewProgress(plan, func(c Cell) bool { return c == done })
	if got := p.Remaining(); got != "0 h 9 min" { // 27 cells of 19 s
		t.Error(got)
	}
	want := "cell 2 of 28: E1 50 ms lsmod none run 1 took 15 s, 0 h 7 min left" // 26 cells of 15 s
	if got := p.Finish(plan[1], 15*time.Second); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	want = "cell 3 of 28: E1 50 ms echo none run 1 took 25 s, 0 h 8 min left" // 25 cells of 20 s
	if got := p.Finish(plan[2], 25*time.Second); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, c := range plan[3:] {
		p.Finish(c, 20*time.Second)
	}
	if got := p.Remaining(); got != "0 h 0 min" || len(p.Parts()) != 0 {
		t.Errorf("%s for %v", got, p.Parts())
	}
}
