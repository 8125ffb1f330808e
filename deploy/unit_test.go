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
