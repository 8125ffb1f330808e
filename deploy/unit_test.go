package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestUnits: systemd-analyze verify reports no problem in the units, and reports an unknown directive.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skipf("%v: the unit is not verified", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for command, text := range map[string]string{" nri ": Unit, " view refresh\n": ViewUnit} {
		if !strings.Contains(text, "ExecStart="+Program+command) {
			t.Errorf("the unit does not start %s%s", Program, command)
		}
		unit := strings.ReplaceAll(text, Program, self)
		if out := verify(t, unit); out != "" {
			t.Errorf("systemd-analyze prints\n%s", out)
		}
		if out := verify(t, strings.Replace(unit, "ProtectHome=", "ProtectHearth=", 1)); !strings.Contains(out, "ProtectHearth") {
			t.Errorf("an unknown directive is not reported: %s", out)
		}
	}
}

// TestUnitDirectives checks directives whose effect only a running systemd would show.
func TestUnitDirectives(t *testing.T) {
	for line, reason := range map[string]string{
		"CapabilityBoundingSet=CAP_KILL CAP_SYS_PTRACE": "/proc/PID/exe and /proc/PID/root of the kubelet and the runtime are read",
		"TimeoutStartSec=2min":                          "the kubelet waits for the unit, and NRI may be off",
		"RuntimeDirectory=candor candor-observe":        "--observe has a separate state",
	} {
		if !strings.Contains(Unit, "\n"+line+"\n") {
			t.Errorf("the unit lacks %s: %s", line, reason)
		}
	}
}

// maxExposure is the maximum exposure of the unit, as rated from 0 to 10 by systemd-analyze security. Lower
// it when the unit improves.
const maxExposure = 2.3

// TestUnitExposure: systemd rates the exposure of the unit at most at maxExposure, and higher without one of
// its protections.
func TestUnitExposure(t *testing.T) {
	for _, unit := range []string{Unit, ViewUnit} {
		if got := exposure(t, unit); got > maxExposure {
			t.Errorf("systemd rates the exposure at %v, want at most %v: systemd-analyze security --offline=true lists the reasons\n%s", got, maxExposure, unit)
		}
	}
	if got := exposure(t, strings.Replace(Unit, "\nNoNewPrivileges=yes\n", "\n", 1)); got <= maxExposure {
		t.Errorf("without NoNewPrivileges systemd rates the exposure at %v, want above %v", got, maxExposure)
	}
}

// exposure returns the exposure of a unit as rated by systemd-analyze security.
func exposure(t *testing.T, text string) float64 {
	t.Helper()
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "--offline") {
		t.Skipf("systemd-analyze security has no --offline (systemd 250): %v", err)
	}
	file := filepath.Join(t.TempDir(), "candor-nri.service")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", file).CombinedOutput()
	_, rating, found := strings.Cut(string(out), "Overall exposure level for candor-nri.service: ")
	if !found {
		t.Fatalf("systemd-analyze security: %v\n%s", err, out)
	}
	got, err := strconv.ParseFloat(strings.Fields(rating)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestMemoryLimits: unit and chart limit the memory of candor nri to 128 MiB, twice its bound of 64 MiB.
// GOMEMLIMIT is at most three quarters of this limit.
func TestMemoryLimits(t *testing.T) {
	limits := map[string][2]string{"unit": {unitValue(t, "Environment=GOMEMLIMIT"), unitValue(t, "MemoryMax") + "iB"}}
	for name, values := range renderings {
		pod := documents(t, render(t, values))["DaemonSet"]["spec"].(document)["template"].(document)["spec"].(document)
		container := pod["containers"].([]any)[0].(document)
		soft := container["env"].([]any)[0].(document)
		if soft["name"] != "GOMEMLIMIT" {
			t.Fatalf("%s: first variable %v", name, soft)
		}
		limits[name] = [2]string{soft["value"].(string), container["resources"].(document)["limits"].(document)["memory"].(string) + "B"}
	}
	for name, l := range limits {
		soft, hard := mebibytes(t, l[0]), mebibytes(t, l[1])
		if hard != 128 || soft < 64 || soft > hard*3/4 {
			t.Errorf("%s: GOMEMLIMIT %v MiB of %v MiB: want 64 to 96 MiB of 128 MiB", name, soft, hard)
		}
	}
}

// unitValue returns the value of a directive of the unit.
func unitValue(t *testing.T, key string) string {
	t.Helper()
	_, after, found := strings.Cut(Unit, "\n"+key+"=")
	if !found {
		t.Fatalf("the unit has no %s", key)
	}
	value, _, _ := strings.Cut(after, "\n")
	return value
}

func mebibytes(t *testing.T, text string) int {
	t.Helper()
	number, isMiB := strings.CutSuffix(text, "MiB")
	n, err := strconv.Atoi(number)
	if err != nil || !isMiB {
		t.Fatalf("%q: want a number of MiB", text)
	}
	return n
}

// verify returns the output of systemd-analyze verify for a unit.
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
