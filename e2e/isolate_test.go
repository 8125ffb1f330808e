package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestIsolate: a short isolation with real stressors and an application of candor runs and leaves nothing
// behind. candor report reads its output.
func TestIsolate(t *testing.T) {
	l := newLab(t)
	l.need(2)
	l.needProgram("stress-ng")
	folder, tmp := filepath.Join(t.TempDir(), "figures"), t.TempDir()
	cmd := l.candor("isolate", "-n", "2", "--stressors", "cpu,cache", "--cases", "together,candor", "--app", "disk", "--tmp", tmp, "--out", folder, "-o", "json")
	got := do(t, cmd)
	if got.code != 0 || got.err != "" {
		t.Fatalf("%+v", got)
	}
	var report struct {
		Runs []struct {
			App, Case, Stressor int
			Time                float64
			Failure             string
			Load                *struct{ CPUs float64 }
		}
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || len(report.Runs) != 2*2*3 {
		t.Fatalf("%d runs, %v: %.1000s; want 2 rounds of 2 cases, alone and beside 2 stressors", len(report.Runs), err, got.out)
	}
	for _, r := range report.Runs {
		if r.Failure != "" || r.Time <= 0 || (r.Load == nil) != (r.Stressor < 0) {
			t.Errorf("%+v", r)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 5 {
		t.Errorf("%d files in the folder, %v; want 3, and 2 pictures", len(files), err)
	}
	if text := l.ok("report", filepath.Join(folder, "report.json")); strings.Count(text, "uncertain") < 4 || !strings.Contains(text, "stress-ng -C 25") {
		t.Error(text)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("%v is left in the folder, %v", left, err)
	}
	if left := labsLeft(cmd.Process.Pid); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestIsolateCleanup: candor isolate reports bad input in one line before the runs and leaves nothing behind,
// also if it is killed.
func TestIsolateCleanup(t *testing.T) {
	l := newLab(t)
	l.need(2)
	l.needProgram("stress-ng")
	tmp := t.TempDir()
	for want, args := range map[string][]string{
		"application x fails alone": {"--app", "x=exit 3"},
		"bad folder":                {"--tmp", "/no/such/folder", "--app", "x=true"},
		"too few CPUs":              {"--cpu", "1000", "--app", "x=true"},
	} {
		got := do(t, l.candor(append([]string{"isolate", "-n", "2", "--stressors", "cpu", "--tmp", tmp}, args...)...))
		if got.code != 2 || got.out != "" || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%v: %+v; want exit code 2, %s", args, got, want)
		}
	}
	flag := filepath.Join(t.TempDir(), "running")
	cmd := l.candor("isolate", "-n", "2", "--stressors", "io", "--cases", "groups", "--tmp", tmp,
		"--app", `x=ls -d "$TMPDIR"/../stressor/* 2>/dev/null && touch `+flag+` && sleep 1000; true`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, "the stressor runs", func() bool { _, err := os.Stat(flag); return err == nil })
	cmd.Process.Kill()
	cmd.Wait()
	within(t, "its guard clears up", func() bool { left, err := os.ReadDir(tmp); return err == nil && len(left) == 0 })
	within(t, "no lab is left", func() bool { return len(labsLeft(cmd.Process.Pid)) == 0 })
}

// labsLeft lists the remaining groups and directories of the lab of a process.
func labsLeft(pid int) (left []string) {
	name := "candor-experiment-" + strconv.Itoa(pid)
	for _, pattern := range []string{"/run/" + name + "*", "/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	return left
}

// within waits for a condition, for at most a minute.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}
