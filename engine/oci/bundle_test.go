package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBundle saves an engine's configuration in Candor's bundle. The engine's bundle must not change, and
// relative paths must become absolute.
func TestBundle(t *testing.T) {
	given := `{"root":{"path":"rootfs","readonly":true},"mounts":[
{"destination":"/a","type":"bind","source":"data"},
{"destination":"/b","source":"more","options":["rbind"]},
{"destination":"/c","type":"bind","source":"/abs"},
{"destination":"/proc","type":"proc","source":"proc"}]}`
	engines := t.TempDir()
	file := filepath.Join(engines, "other.json")
	if err := os.WriteFile(file, []byte(given), 0o640); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig(engines, "other.json")
	if err != nil {
		t.Fatal(err)
	}
	own := bundle(filepath.Join(t.TempDir(), "bundles", "web"))
	if err := own.save(c); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != given {
		t.Errorf("the engine's configuration was changed to %s (%v)", text, err)
	}
	if entries, _ := os.ReadDir(engines); len(entries) != 1 {
		t.Errorf("the engine's bundle has other files: %v", entries)
	}
	text, err := os.ReadFile(filepath.Join(string(own), configName))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"` + engines + `/rootfs"`, `"readonly":true`, `"` + engines + `/data"`, `"` + engines + `/more"`, `"source":"/abs"`, `"source":"proc"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if info, err := os.Stat(filepath.Join(string(own), configName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	call := Parse(strings.Fields("--root /r create --bundle /b -f other.json --pid-file p web"))
	if got, want := strings.Join(own.in(&call), " "), "--root /r create --pid-file p --bundle "+string(own)+" web"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := own.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(own)); err == nil {
		t.Error("the bundle was not removed")
	}
}

func TestConfigName(t *testing.T) {
	for line, want := range map[string]string{
		"create --bundle /b x": configName, "create -f other.json x": "other.json", "run --config=/c x": "/c",
	} {
		c := Parse(strings.Fields(line))
		if got := c.config(); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
