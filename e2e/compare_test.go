package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompareAndReport: candor report reads the JSON output of candor compare.
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

// TestReportTogether: several reports with the same baseline make one table with a row per program. Reports
// with different baselines are refused.
func TestReportTogether(t *testing.T) {
	l := newLab(t)
	if l.usable.Count() < 2 {
		t.Skip("one CPU: quota and candor show the same number")
	}
	dir := t.TempDir()
	report := func(name, base string) string {
		file := filepath.Join(dir, name+".json")
		out := l.ok("compare", "--cpu", "500m", "--setups", base+",candor", "-n", "2", "--name", name, "--metric", `cpus=^(\d+)$`, "-o", "json", "--", "nproc")
		if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	one, two, other := report("one", "quota"), report("two", "quota"), report("other", "none")
	folder := filepath.Join(dir, "figures")
	text := l.ok("report", one, two, "-o", "markdown", "--out", folder)
	for _, want := range []string{"| program | metric | runs | quota | candor |", "| one | cpus (lower is better) | 2 |", "| two |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 4 {
		t.Errorf("%d files in the folder, %v; want 4", len(files), err)
	}
	for want, files := range map[string][]string{"the baseline of other is none": {one, other}, `two programs have the name "one"`: {one, one}} {
		if got := do(t, l.candor(append([]string{"report"}, files...)...)); got.code != 2 || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%+v, want exit code 2 and one line with %q", got, want)
		}
	}
}

// TestCompareServer: the output of the client is the measurement of the server.
func TestCompareServer(t *testing.T) {
	l := newLab(t)
	if l.usable.Count() < 2 {
		t.Skip("one CPU: none is left for the client")
	}
	l.needProgram("python3")
	socket := filepath.Join(t.TempDir(), "socket")
	server := `python3 -c "import os, socket; s = socket.socket(socket.AF_UNIX); s.bind('` + socket + `'); s.listen()
while True: s.accept()[0].sendall(b'%d' % len(os.sched_getaffinity(0)))"; true`
	client := `python3 -c "import socket; s = socket.socket(socket.AF_UNIX); s.connect('` + socket + `'); print('cpus', s.recv(9).decode())"; rm ` + socket
	out := l.ok("compare", "--cpu", "500m", "--setups", "quota,candor", "-n", "2", "--server", server, "--client", client,
		"--metric", `seen=cpus (\d+)`, "--better", "seen=higher", "-o", "json")
	var report struct {
		Name    string
		Metrics []struct {
			Name           string
			HigherIsBetter bool
		}
		Runs []struct {
			Setup   int
			Values  map[string]float64
			Failure string
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Name != "python3" || len(report.Metrics) != 2 || !report.Metrics[1].HigherIsBetter {
		t.Fatalf("%+v, %v: want python3 and two metrics", report, err)
	}
	for _, r := range report.Runs {
		if want := []int{l.usable.Count(), 1}[r.Setup]; r.Values["seen"] != float64(want) {
			t.Errorf("%+v, want that the server sees %d", r, want)
		}
	}
}
