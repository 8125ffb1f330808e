package compatibility

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/compatibility.md with the results that it has")

// TestParseCells: names select cells in the order of the page, and an unknown name is refused with the accepted names.
func TestParseCells(t *testing.T) {
	for _, c := range []struct{ names, want string }{
		{"", ""},
		{"guest-6.12-v2/runc host/docker-20.10", "host/docker-20.10 guest-6.12-v2/runc"},
		{"guest-6.1-systemd", "guest-6.1-systemd/containerd-2.4 guest-6.1-systemd/runc"},
		{"host/runc host/runc", "host/runc"},
	} {
		cells, err := ParseCells(strings.Fields(c.names))
		var got []string
		for _, cell := range cells {
			got = append(got, cell.String())
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q: %v, %v; want %s", c.names, got, err, c.want)
		}
	}
	for _, bad := range []string{"docker", "host/", "guest-6.12-v2/docker-29", "Host/runc"} {
		if _, err := ParseCells([]string{"host/runc", bad}); err == nil || !strings.Contains(err.Error(), `"`+bad+`": must be a machine, or one of host/containerd-1.6, `) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// outputOf returns the output of a test, whose lines begin at the margin.
func outputOf(lines ...string) string {
	return "=== RUN   TestCompatibility\n" + strings.Join(lines, "\n") + "\n"
}

const (
	versionLine = "    x_test.go:1: compatibility: versions Linux 6.18, Docker 20.10.24"
	stepOne     = "    x_test.go:2: compatibility: step " + Sensitive
	stepEnd     = "    x_test.go:9: compatibility: step " + End
)

// TestParse: the answer is yes only for a test that passed to its end. A failed test gives its first message in the last step.
func TestParse(t *testing.T) {
	const versions = "Linux 6.18, Docker 20.10.24"
	for name, c := range map[string]struct {
		output                 string
		answer, versions, skip string
	}{
		"passed":       {outputOf(versionLine, stepOne, "    lab_test.go:7: seen", stepEnd, "--- PASS: TestCompatibility (2.00s)", "PASS"), Yes, versions, ""},
		"passed early": {outputOf(versionLine, stepOne, "--- PASS: TestCompatibility (2.00s)"), Sensitive + ": the test ended early", versions, ""},
		"failed":       {outputOf(versionLine, stepOne, "    lab_test.go:7: docker run: exit 1", "        candor: no | capacity", "    lab_test.go:8: engine:", "--- FAIL: TestCompatibility (2.00s)"), Sensitive + ": docker run: exit 1 candor: no / capacity", versions, ""},
		"temporary files": {outputOf(stepOne, "    lab_test.go:7: exit 126: /tmp/candor-podman-2253292128/runtime: no; open /var/tmp/a1/b/c: /tmp/x", "--- FAIL: TestCompatibility (2.00s)"),
			Sensitive + ": exit 126: runtime: no; open c: x", "", ""},
		"failed at end":    {outputOf(stepOne, "    lab_test.go:7: a message", stepEnd, "    lab_test.go:8: groups left", "--- FAIL: TestCompatibility (2.00s)"), End + ": groups left", "", ""},
		"timeout":          {outputOf(stepOne, "panic: test timed out after 7m0s", "	running tests:", "x_test.go:3 +0x1"), Sensitive + ": panic: test timed out after 7m0s", "", ""},
		"killed":           {outputOf(stepOne), Sensitive + ": the test ended early", "", ""},
		"known reason":     {outputOf(versionLine, "    x_test.go:4: compatibility: unsupported containerd 1.6.20 has no NRI", "--- SKIP: TestCompatibility (0.10s)"), "containerd 1.6.20 has no NRI", versions, ""},
		"skipped":          {outputOf("    x_test.go:4: needs Docker", "--- SKIP: TestCompatibility (0.00s)"), "", "", "needs Docker"},
		"does not start":   {outputOf("    x_test.go:4: waited a minute", "        log", "--- FAIL: TestCompatibility (60.00s)"), "", "", "waited a minute log"},
		"nothing":          {"", "", "", "the test ended early"},
		"passed in guest":  {outputOf("=== RUN   TestCompatibility/TestCompatibility", "    relay_test.go:46: === RUN   TestCompatibility", "        x_test.go:1: compatibility: versions Linux 6.18, Docker 20.10.24", "        x_test.go:9: compatibility: step "+End, "        --- PASS: TestCompatibility (9.00s)", "    --- PASS: TestCompatibility/TestCompatibility (0.00s)", "--- PASS: TestCompatibility (60.00s)"), Yes, versions, ""},
		"failed in guest":  {outputOf("    relay_test.go:50: === RUN   TestCompatibility", "        x_test.go:2: compatibility: step "+Resize, "        lab_test.go:7: no", "        --- FAIL: TestCompatibility (9.00s)", "    --- FAIL: TestCompatibility/TestCompatibility (0.00s)", "--- FAIL: TestCompatibility (60.00s)"), Resize + ": no", "", ""},
		"skipped in guest": {outputOf("    relay_test.go:48: === RUN   TestCompatibility", "        x_test.go:2: needs runc", "        --- SKIP: TestCompatibility (9.00s)", "    --- SKIP: TestCompatibility/TestCompatibility (0.00s)", "--- PASS: TestCompatibility (60.00s)"), "", "", "needs runc"},
		"long": {outputOf(stepOne, "    lab_test.go:7: "+strings.Repeat("é", maxReason), "--- FAIL: TestCompatibility (2.00s)"),
			Sensitive + ": " + strings.Repeat("é", (maxReason-len(Sensitive)-2)/2) + "…", "", ""},
	} {
		answer, found, err := Parse(c.output)
		skip := ""
		if reason := new(NotMeasuredError); errors.As(err, &reason) {
			skip = reason.Reason
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if answer != c.answer || found != c.versions || skip != c.skip {
			t.Errorf("%s:\n got %q, %q, %q\nwant %q, %q, %q", name, answer, found, skip, c.answer, c.versions, c.skip)
		}
	}
}

// TestPage: ReadPage returns the results that Page has written, and docs/compatibility.md is a page.
func TestPage(t *testing.T) {
	results := map[string]Result{}
	for i, c := range Cells() {
		switch i % 3 {
		case 0:
			results[c.String()] = Result{Cell: c.String(), Answer: Yes, Versions: "Linux 6.18, runc 1.1", Date: "2026-11-27"}
		case 1:
			results[c.String()] = Result{Cell: c.String(), Answer: "a reason", Date: "2026-11-27"}
		}
	}
	if got := ReadPage(Page(results)); !reflect.DeepEqual(got, results) {
		t.Errorf("got %v\nwant %v", got, results)
	}
	if got := ReadPage(Page(nil)); len(got) != 0 || strings.Count(Page(nil), "| "+notMeasured+" ") != len(Engines())*len(Machines()) {
		t.Errorf("empty: %v\n%s", got, Page(nil))
	}
	const file = "../../docs/compatibility.md"
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	want := Page(ReadPage(string(text)))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is no page of make matrix: go test ./e2e/compatibility -run TestPage -update", file)
	}
}

// open returns a measurement in a directory. Its tests are the given shell script.
func open(t *testing.T, dir, script string) (m *Measurement, output *bytes.Buffer) {
	t.Helper()
	output = new(bytes.Buffer)
	m = &Measurement{Source: dir, Results: filepath.Join(dir, "results", "cells.jsonl"), Page: filepath.Join(dir, "page.md"), Engines: dir, Output: output}
	if err := m.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	for _, tests := range []string{ociTests, criTests, guestTests} {
		if err := os.MkdirAll(filepath.Join(dir, tests), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.work, filepath.Base(tests)+".test"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m, output
}

// TestRun: a cell that fails is measured twice, and the second result counts. The next measurement continues.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	script := `echo "    x_test.go:1: compatibility: step ` + End + `"
case $CANDOR_COMPATIBILITY in
host/runc) if mkdir "` + dir + `/second" 2>/dev/null; then echo "    x_test.go:2: broken"; echo "--- FAIL: TestCompatibility"; exit 1; fi ;;
host/crun) echo "    x_test.go:2: broken"; echo "--- FAIL: TestCompatibility"; exit 1 ;;
host/docker-20.10) echo "    x_test.go:2: needs Docker"; echo "--- SKIP: TestCompatibility"; exit 0 ;;
esac
echo "--- PASS: TestCompatibility"`
	m, output := open(t, dir, script)
	cells, err := ParseCells([]string{"host/docker-20.10", "host/runc", "host/crun", "guest-6.12-v2/runc"})
	if err == nil {
		err = m.Run(context.Background(), cells)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"host/docker-20.10 (0 s): not measured: needs Docker\n", "host/runc (0 s): yes\n", "host/crun (0 s): the end: broken\n", "guest-6.12-v2/runc (0 s): yes\n"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, output)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(m.Page)
	if results := ReadPage(string(page)); err != nil || len(results) != 3 || results["host/crun"].Answer != "the end: broken" || results["host/runc"].Answer != Yes {
		t.Errorf("%v, the page has %v", err, results)
	}
	again, _ := open(t, dir, script)
	if missing := again.Missing(); len(missing) != len(Cells())-3 {
		t.Errorf("%d cells are missing, want all but 3", len(missing))
	}
	again.Close()
	// The page alone has the results too.
	if err := os.RemoveAll(filepath.Join(dir, "results")); err != nil {
		t.Fatal(err)
	}
	other, _ := open(t, dir, script)
	if missing := other.Missing(); len(missing) != len(Cells())-3 {
		t.Errorf("with the page alone, %d cells are missing", len(missing))
	}
}

// TestRunInterrupted: an interrupted test gives no result.
func TestRunInterrupted(t *testing.T) {
	m, _ := open(t, t.TempDir(), "sleep 60")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Run(ctx, Cells()[:1]); !errors.Is(err, context.Canceled) || len(m.measured) != 0 {
		t.Errorf("%v, %v", err, m.measured)
	}
}
