package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wysiwyg returns a command that runs the script behind docs/benchmarks/wysiwyg.md with little work per run.
func (l *lab) wysiwyg(out string, parts ...string) *exec.Cmd {
	cmd := exec.Command("scripts/wysiwyg.sh", parts...)
	cmd.Dir = ".."
	cmd.Env = slices.Concat(l.candor().Env, []string{"CANDOR=" + os.Getenv("CANDOR_BIN"), "OUT=" + out, "RUNS=2", "WORK=1", "CPU=500m"})
	return cmd
}

// TestWYSIWYG checks that the script measures and writes tables.
func TestWYSIWYG(t *testing.T) {
	l := newLab(t)
	if l.usable.Count() < 2 {
		t.Skip("one CPU: all setups show the same number")
	}
	for _, program := range []string{"gcc", "javac", "python3", "xz", "zstd", "sysbench", "stress-ng", "openssl", "nginx", "wrk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs the packages of docs/benchmarks/wysiwyg.md: %v", err)
		}
	}
	out := t.TempDir()
	if got := do(t, l.wysiwyg(out, "stream", "joined")); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	text, err := os.ReadFile(filepath.Join(out, "wysiwyg.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"### stream\n", "| quota+threads | 500m | 2 | 0 |", "### joined\n", "| shared-fraction | 500m | 2 | 0 |", "| 2xcpuset | 500m | 2 | 0 |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := do(t, l.wysiwyg(out, "streams")); got.code != 2 || !strings.Contains(got.err, "use stream, programs, joined or oversubscribed") {
		t.Errorf("no such part: %+v, want exit code 2", got)
	}
}
