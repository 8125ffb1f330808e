package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestFindRuntimes: the runtimes of candor in a configuration are those whose program has the name of one of Candor's links.
func TestFindRuntimes(t *testing.T) {
	runc, flexible := Runtime{"candor", "/usr/bin/candor-runc"}, Runtime{"flex", "/opt/candor-flexible-runc"}
	for name, test := range map[string]struct {
		engine Engine
		text   string
		want   []Runtime
		isBad  bool
	}{
		"Docker": {Docker, `{"runtimes": {"candor": {"path": "/usr/bin/candor-runc"}, "runsc": {"path": "/usr/bin/runsc"}, "flex": {"path": "/opt/candor-flexible-runc"}}}`,
			[]Runtime{runc, flexible}, false},
		"Docker, another program": {Docker, `{"runtimes": {"candor": {"path": "/usr/bin/runc"}}}`, nil, false},
		"Docker, empty":           {Docker, ``, nil, false},
		"Docker, no JSON":         {Docker, `{`, nil, true},
		"Podman": {Podman, "[engine.runtimes]\nflex = ['/opt/candor-flexible-runc']\ncandor = ['/usr/bin/candor-runc', '/usr/bin/runc']\n",
			[]Runtime{runc, flexible}, false},
		"Podman, no TOML": {Podman, "[", nil, true},
	} {
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := FindRuntimes(test.engine, file); !slices.Equal(got, test.want) || errors.Is(err, ErrBadFile) != test.isBad || (err == nil) == test.isBad {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := FindRuntimes(Docker, filepath.Join(t.TempDir(), "none")); got != nil || err != nil {
		t.Errorf("missing file: %v, %v", got, err)
	}
}
