package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What compare writes as JSON, report reads.
func TestCompareAndReport(t *testing.T) {
	l := newLab(t)
	out := l.ok("compare", "--cpu", "500m", "--setups", "none,candor", "-n", "3", "--metric", `^(\d+)$`, "-o", "json", "--", "nproc")
	var report struct {
		Runs []struct {
			Setup, Round int
			Values       map[string]float64
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Runs) != 8 {
		t.Fatalf("%d runs, %v: %s; want 2 x (3 + 1)", len(report.Runs), err, out)
	}
	for _, r := range report.Runs {
		if r.Setup == 1 && r.Values[`^(\d+)$`] != 1 {
			t.Errorf("candor: %v, want 1 CPU", r.Values)
		}
	}
	file, folder := filepath.Join(t.TempDir(), "runs.json"), filepath.Join(t.TempDir(), "figures")
	if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
	if text := l.ok("report", file, "--out", folder); !strings.Contains(strings.Join(strings.Fields(text), " "), " candor 500m 3 0 ") {
		t.Error(text)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 7 {
		t.Errorf("%d files in the folder, %v; want 7", len(files), err)
	}
	os.WriteFile(file, []byte(`{"version":9}`), 0o644)
	if got := do(t, l.candor("report", file)); got.code != 2 || !strings.Contains(got.err, "version 9") {
		t.Errorf("a newer report: %+v", got)
	}
}
