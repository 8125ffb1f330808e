package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSupport: the archive of this machine has the log, and candor plan accepts its topology and its operations.
func TestSupport(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CANDOR_STATE_DIR", filepath.Join(dir, "state"))
	t.Setenv("CANDOR_CONFIG", filepath.Join(dir, "host.json"))
	log, archive := filepath.Join(dir, "log"), filepath.Join(dir, "a.tar.gz")
	if err := os.WriteFile(log, []byte("time=2026-11-27T14:00:00Z level=INFO msg=planned container=planted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, "", "support", "--file", archive, "--log", log, "--anonymize")
	if code != 0 || errOut != "" || !strings.HasPrefix(out, "Wrote "+archive+".\n") || strings.Contains(out, "Missing: topology.json") || strings.Contains(out, "Missing: nri.log") {
		t.Fatalf("code %d, %q, %q", code, out, errOut)
	}
	info, err := os.Stat(archive)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if text, err := exec.Command("tar", "xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	in := func(name string) string { return filepath.Join(dir, "candor-support", name) }
	if text, err := os.ReadFile(in("nri.log")); err != nil || !regexp.MustCompile(` level=INFO msg=planned container=name-\d+\n$`).Match(text) {
		t.Errorf("%v: %q", err, text)
	}
	if code, out, errOut := command(t, "", "plan", "--machine", in("topology.json"), in("plan.jsonl")); code != 0 || errOut != "" {
		t.Errorf("candor plan: code %d, %q, %q", code, out, errOut)
	}

	for line, want := range map[string]string{
		"support --file " + archive:             "--file " + archive + ": it exists: must be a new file\n",
		"support --file " + dir + "/no/archive": "--file: open ",
		"support --log " + dir + "/none":        "--log: open ",
		"support now":                           "the command takes no arguments",
	} {
		code, out, errOut := command(t, "", strings.Fields(line)...)
		if code != exitBadInput || out != "" || !strings.Contains(errOut, want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor %s: code %d, %q, %q; want %q", line, code, out, errOut, want)
		}
	}
	if again, err := os.Stat(archive); err != nil || again.Size() != info.Size() {
		t.Errorf("the refused command changed the archive: %v, %v", again, err)
	}
}
