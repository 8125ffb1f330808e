package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnits: systemd understands the unit, all of it.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skipf("%v: the unit is not tried", err)
	}
	const program = "/usr/local/bin/candor" // where make install puts it
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(Unit, "ExecStart="+program+" nri ") {
		t.Errorf("it does not start %s", program)
	}
	there := strings.ReplaceAll(Unit, program, self)
	if out := verify(t, there); out != "" {
		t.Errorf("systemd-analyze says\n%s", out)
	}
	if out := verify(t, strings.Replace(there, "ProtectHome=", "ProtectHearth=", 1)); !strings.Contains(out, "ProtectHearth") {
		t.Errorf("an unknown word passed: %s", out)
	}
}

// TestUnitsNeeds: what cannot be seen here, where systemd does not run the unit.
func TestUnitsNeeds(t *testing.T) {
	for line, why := range map[string]string{
		"CapabilityBoundingSet=CAP_KILL CAP_SYS_PTRACE": "/proc/PID/root of the kubelet and the runtime is read",
		"TimeoutStartSec=2min":                          "the kubelet waits for the unit, and NRI may be off",
		"RuntimeDirectory=candor candor-observe":        "--observe has a state of its own",
	} {
		if !strings.Contains(Unit, "\n"+line+"\n") {
			t.Errorf("no line %s: %s", line, why)
		}
	}
}

// verify returns what systemd-analyze has against a unit.
func verify(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "candor-nri.service")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}
