package containerd

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// doctored returns the finding of a check of candor doctor about the lab's containerd, and the exit code. The machine can have another
// containerd, so the check's finding must contain the lab's directory or socket.
func (l *lab) doctored(id string) (code int, status, found string) {
	l.Helper()
	out, err := exec.Command(l.candor, "doctor", "--for", "nri", "--check", id, "-o", "json").Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	var r struct {
		Checks []struct{ Status, Found string }
	}
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil || len(r.Checks) != 1 {
		l.Fatalf("candor doctor --check %s: %v\n%s", id, err, out)
	}
	return code, r.Checks[0].Status, r.Checks[0].Found
}

// TestDoctorDisabledNRI: candor doctor fails for a containerd that was started with disable = true, and names its configuration file.
func TestDoctorDisabledNRI(t *testing.T) {
	l := newEngine(t)
	file := l.path("containerd.toml")
	if _, status, found := l.doctored("nri-enabled"); status == "failed" && strings.Contains(found, file) {
		t.Errorf("NRI on: %s: %s", status, found)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "disable = false") {
		t.Fatalf("%v\n%s", err, text)
	}
	l.write("containerd.toml", strings.Replace(string(text), "disable = false", "disable = true", 1))
	l.engine.kill()
	l.startEngine()
	if code, status, found := l.doctored("nri-enabled"); code != 1 || status != "failed" || !strings.Contains(found, file+"): NRI is off") {
		t.Errorf("NRI off: code %d, %s: %s", code, status, found)
	}
}

// TestDoctorShortTimeout: candor doctor warns about a containerd that waits less for a plugin than the plugin waits for the
// state.
func TestDoctorShortTimeout(t *testing.T) {
	l := newEngine(t)
	file := l.path("containerd.toml")
	if _, status, found := l.doctored("nri-timeout"); status != "ok" && strings.Contains(found, file) {
		t.Errorf("the default: %s: %s", status, found)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "disable = false") {
		t.Fatalf("%v\n%s", err, text)
	}
	l.write("containerd.toml", strings.Replace(string(text), "disable = false", "disable = false\n  plugin_request_timeout = '1s'", 1))
	l.engine.kill()
	l.startEngine()
	if code, status, found := l.doctored("nri-timeout"); code != 0 || status != "warning" || !strings.Contains(found, "1s, but candor nri waits up to 1.5s") {
		t.Errorf("1 s: code %d, %s: %s", code, status, found)
	}
}

// TestDoctorSecondPlugin: candor doctor warns about a second NRI plugin, and not about candor nri alone.
func TestDoctorSecondPlugin(t *testing.T) {
	l := newLab(t)
	if _, status, found := l.doctored("nri-plugins"); status != "ok" {
		t.Errorf("candor nri alone: %s: %s", status, found)
	}
	l.newRival("10", "0")
	if code, status, found := l.doctored("nri-plugins"); code != 0 || status != "warning" || !strings.Contains(found, l.path("nri.sock")) {
		t.Errorf("with a rival: code %d, %s: %s", code, status, found)
	}
}
