package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/simulate"
)

// smallCell is a synthetic trace that replays quickly.
const smallCell = "synthetic:machines=5,days=0.02"

func TestSimulateJSON(t *testing.T) {
	code, out, errOut := command(t, "", "simulate", "--trace", smallCell, "--sensitive", "0:1:0.5,by-class", "--policy", "strict,best-effort", "--scheduler", "own,least", "-o", "json")
	var got struct {
		Setting map[string]any
		Points  []struct {
			Algorithm, Policy, Scheduler string
			SensitiveShare               float64
			Placed                       int
		}
	}
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
		t.Fatalf("exit code %d, %s, %v", code, errOut, err)
	}
	if len(got.Points) != 2*2*2*4 {
		t.Errorf("%d points", len(got.Points))
	}
	for _, p := range got.Points {
		if p.Placed == 0 {
			t.Errorf("nothing placed: %+v", p)
		}
	}
	if p := got.Points[4]; p.Scheduler != "least" || p.Algorithm != "candor" || p.SensitiveShare != 0 {
		t.Errorf("the fifth point is %+v", p)
	}
	if p := got.Points[16]; p.Scheduler != "paper" || p.Algorithm != "paper" {
		t.Errorf("the paper's first point is %+v", p)
	}
	for key, want := range map[string]any{"coresOfLargest": 16.0, "overcommit": 1.0, "atStart": "placed by the scheduler, in the trace's order", "seed": 1.0} {
		if got.Setting[key] != want {
			t.Errorf("setting has %s %v, want %v", key, got.Setting[key], want)
		}
	}
}

func TestSimulateBadInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bad.csv")
	if err := os.WriteFile(file, []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "missing --trace; must be a trace of a kind"},
		{[]string{"--trace", "nothing"}, "must be google2011:DIR"},
		{[]string{"--trace", "csv:" + file}, "bad.csv:1"},
		{[]string{"--trace", smallCell, "extra"}, "takes no arguments"},
		{[]string{"--trace", smallCell, "--sensitive", "1.5"}, "must be shares from 0 to 1"},
		{[]string{"--trace", smallCell, "--sensitive", "NaN"}, "must be shares from 0 to 1"},
		{[]string{"--trace", smallCell, "--sensitive", "0:1"}, "must be shares from 0 to 1"},
		{[]string{"--trace", smallCell, "--sensitive", "0:1:0"}, "a step above 0"},
		{[]string{"--trace", smallCell, "--sensitive", "0:1:1e-9"}, "1001 shares at most"},
		{[]string{"--trace", smallCell, "--sensitive", "by=" + file}, "must be job or job,task"},
		{[]string{"--trace", smallCell, "--sensitive", "by=" + dir + "/none"}, "no such file"},
		{[]string{"--trace", smallCell, "--algorithm", "candor,best"}, `"best": must be one of candor, paper`},
		{[]string{"--trace", smallCell, "--policy", ""}, "must be one of strict, best-effort"},
		{[]string{"--trace", smallCell, "--scheduler", "first"}, "must be one of own, least, most, paper, candor"},
		{[]string{"--trace", smallCell, "--overcommit", "0"}, "overcommit 0: must"},
		{[]string{"--trace", smallCell, "--cores-of-largest", "-1"}, "must be above 0, at most 1024"},
		{[]string{"--trace", smallCell, "--size", "s>1"}, "must be bounds such as s<5%,r=0"},
		{[]string{"--trace", smallCell, "--size", "s<1", "--machines", "3"}, "use one of them"},
		{[]string{"--trace", smallCell, "--gain", file}, "must be workload,alone,shared,weight"},
		{[]string{"--trace", smallCell, "-o", "svg"}, "must be one of table, wide, json"},
	} {
		code, out, errOut := command(t, "", append([]string{"simulate"}, test.args...)...)
		if code != 2 || out != "" || !strings.Contains(errOut, test.want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q, want %q", test.args, code, errOut, test.want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("bad input left files: %v, %v", entries, err)
	}
}

func TestSimulateOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "figures")
	gain := filepath.Join(t.TempDir(), "gain.csv")
	if err := os.WriteFile(gain, []byte("workload,alone,shared,weight\nstream,1.7,1.1,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, "", "simulate", "--trace", smallCell, "--algorithm", "candor", "--out", dir, "--size", "s<50%", "--gain", gain)
	if code != 0 || !strings.Contains(out, "The fewest machines") || !strings.Contains(out, "An estimate from 1 measured") {
		t.Fatalf("exit code %d, %s\n%s", code, errOut, out)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 9 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if code, _, errOut := command(t, "", "simulate", "--trace", smallCell, "--out", gain); code != 1 || !strings.Contains(errOut, "gain.csv") {
		t.Errorf("a folder that is a file: exit code %d, %s", code, errOut)
	}
}

func TestShares(t *testing.T) {
	for text, want := range map[string][]float64{
		"0.5":        {0.5},
		"0:1:0.25":   {0, 0.25, 0.5, 0.75, 1},
		"0.1:0.4:.1": {0.1, 0.2, 0.3, 0.4},
		"0.2:0.2:1":  {0.2},
	} {
		if got, err := parseShares(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}

func FuzzShares(f *testing.F) {
	for _, text := range []string{"0.5", "0:1:0.1", "1:0:0.1", "0:1:1e-300", "::"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		shares, err := parseShares(text)
		if err == nil && (len(shares) == 0 || len(shares) > maxShares+1) {
			t.Fatalf("%d shares of %q", len(shares), text)
		}
		for _, v := range shares {
			if !(v >= 0 && v <= 1) || math.IsNaN(v) {
				t.Fatalf("share %v of %q", v, text)
			}
		}
	})
}

func TestProgressLine(t *testing.T) {
	p := &simulate.Progress{}
	if line := pointsStage(p, 0, 2).line(time.Second); line != "0 of 2 points, 0 events, 0 a second" {
		t.Errorf("at the start: %q", line)
	}
	p = halfwayProgress(t)
	want := "[############------------] 2s left, 1 of 2 points, 11 events, 5 a second"
	for _, known := range []int64{0, 11} {
		if line := pointsStage(p, known, 2).line(2200 * time.Millisecond); line != want {
			t.Errorf("halfway: %q, want %q", line, want)
		}
	}
}

// halfwayProgress returns the progress of a sweep after its first point, which has eleven events.
func halfwayProgress(t *testing.T) *simulate.Progress {
	t.Helper()
	file := filepath.Join(t.TempDir(), "t.csv")
	text := "time,event,machine,cpu,memory,job\n0,machine-add,m,4,1Gi,\n" + strings.Repeat("1,submit,,1,1Mi,a\n1,end,,,,a\n", 5)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f := simulateFlags{trace: "csv:" + file, cores: 16, overcommit: 1}
	s, _, err := f.setting()
	if err != nil {
		t.Fatal(err)
	}
	s.Progress = &simulate.Progress{}
	if _, err := simulate.Sweep(t.Context(), s, []simulate.Point{{}}); err != nil {
		t.Fatal(err)
	}
	return s.Progress
}
