package nri

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	validatorOn = "version = 3\n[plugins.'io.containerd.nri.v1.nri']\n  disable = false\n  [plugins.'io.containerd.nri.v1.nri'.default_validator]\n" +
		"    enable = true\n    required_plugins = [\"topo\", \"candor\"]\n"
	validatorOff = "version = 3\n[plugins.'io.containerd.nri.v1.nri']\n  disable = false\n[plugins.'io.containerd.cri.v1.images']\n  snapshotter = \"native\"\n"
)

// containerd adds a containerd process with the arguments words, and returns its runtimeProcess.
func (m *machine) containerd(words ...string) *runtimeProcess {
	m.Helper()
	m.process("9", append([]string{"/usr/bin/containerd"}, words...)...)
	m.stat("9")
	return &runtimeProcess{pid: 9, name: "containerd", version: "v2.4.2"}
}

// old sets the modification times of all files to before the start of any process.
func (m *machine) old() {
	m.Helper()
	before := time.Now().Add(-time.Hour * 24 * 365)
	err := filepath.WalkDir(m.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chtimes(path, before, before)
		}
		return err
	})
	if err != nil {
		m.Fatal(err)
	}
}

func TestRequired(t *testing.T) {
	const usualFile = "etc/containerd/config.toml"
	for name, test := range map[string]struct {
		files  map[string]string
		words  []string
		active bool
		file   string
		why    string // error; "" if the setting is known
	}{
		"active":               {files: map[string]string{usualFile: validatorOn}, active: true, file: "/" + usualFile},
		"no section":           {files: map[string]string{usualFile: validatorOff}, file: "/" + usualFile},
		"no file":              {file: "/" + usualFile},
		"disabled":             {files: map[string]string{usualFile: strings.Replace(validatorOn, "= true", "= false", 1)}, file: "/" + usualFile},
		"another plugin":       {files: map[string]string{usualFile: strings.Replace(validatorOn, "candor", "condor", 1)}, file: "/" + usualFile},
		"config flag":          {files: map[string]string{"srv/c.toml": validatorOn}, words: []string{"--config", "c.toml"}, active: true, file: "/srv/c.toml"},
		"config flag -c":       {files: map[string]string{"opt/c.toml": validatorOn}, words: []string{"-c=/opt/c.toml"}, active: true, file: "/opt/c.toml"},
		"config flag, no file": {words: []string{"--config=/opt/c.toml"}, why: "/opt/c.toml: no such file"},
		"imported": {files: map[string]string{usualFile: "imports = ['conf.d/*.toml']\n" + validatorOff, "etc/containerd/conf.d/b.toml": validatorOn},
			active: true, file: "/etc/containerd/conf.d/b.toml"},
		"imported in a cycle": {files: map[string]string{usualFile: "imports = ['a.toml']\n", "etc/containerd/a.toml": "imports = ['/" + usualFile + "']\n" + validatorOn},
			active: true, file: "/etc/containerd/a.toml"},
		"set in two files": {files: map[string]string{usualFile: "imports = ['a.toml']\n" + validatorOn, "etc/containerd/a.toml": validatorOn},
			active: true, file: "/etc/containerd/a.toml"},
		"plugins in another file": {files: map[string]string{usualFile: "imports = ['a.toml']\n" + validatorOn,
			"etc/containerd/a.toml": "[plugins.'io.containerd.nri.v1.nri'.default_validator]\nrequired_plugins = ['topo']\n"}, file: "/etc/containerd/a.toml"},
		"off in another file": {files: map[string]string{usualFile: "imports = ['a.toml']\n" + validatorOn,
			"etc/containerd/a.toml": "[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = false\n"}, file: "/etc/containerd/a.toml"},
		"no TOML": {files: map[string]string{usualFile: "[a\n"}, why: "/" + usualFile + ": cannot parse containerd's TOML"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			for name, text := range test.files {
				m.write(name, text)
			}
			runtime := m.containerd(test.words...)
			m.old()
			active, file, err := runtime.required(m.root)
			if test.why != "" {
				if err == nil || !strings.Contains(err.Error(), test.why) || strings.Contains(err.Error(), m.root) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, %v; want %q", active, err, test.why)
				}
				return
			}
			if err != nil || active != test.active || file != test.file {
				t.Errorf("%v, %s, %v; want %v, %s", active, file, err, test.active, test.file)
			}
		})
	}
}

// TestRequiredChangedAfterStart: containerd reads its configuration at its start. If the file is newer, the
// result is an error.
func TestRequiredChangedAfterStart(t *testing.T) {
	m := newMachine(t)
	m.write("etc/containerd/config.toml", validatorOn)
	runtime := m.containerd()
	late := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(m.root, "etc/containerd/config.toml"), late, late); err != nil {
		t.Fatal(err)
	}
	if active, _, err := runtime.required(m.root); active || err == nil || !strings.Contains(err.Error(), "has changed since") {
		t.Errorf("%v, %v", active, err)
	}
}

func TestRequiredUnknown(t *testing.T) {
	m := newMachine(t)
	for want, runtime := range map[string]runtimeProcess{
		"the runtime is cri-o":   {pid: 9, name: "cri-o", version: "1.35.0"},
		"containerd v2.1.9 has":  {pid: 9, name: "containerd", version: "v2.1.9"},
		"containerd 1.7.27 has":  {pid: 9, name: "containerd", version: "1.7.27"},
		"containerd unknown has": {pid: 9, name: "containerd", version: "unknown"},
		"host's pid namespace":   {pid: 0, name: "containerd", version: "v2.4.2"},
		"no such file":           {pid: 10, name: "containerd", version: "v10.0"},
	} {
		if active, _, err := runtime.required(m.root); active || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v; want %q", runtime, active, err, want)
		}
	}
}

// TestRequiredMessage: the log reports the setting in a single line, with the file or the reason.
func TestRequiredMessage(t *testing.T) {
	m := newMachine(t)
	m.write("etc/containerd/config.toml", validatorOff)
	runtime := m.containerd()
	m.old()
	for want, r := range map[string]*runtimeProcess{
		`required_plugins="not active" file=/etc/containerd/config.toml`: runtime,
		`required_plugins="not known" reason="the runtime is cri-o`:      {pid: 1, name: "cri-o", version: "1"},
	} {
		var log strings.Builder
		r.logRequired(slog.New(slog.NewTextHandler(&log, nil)), m.root)
		if !strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s; want %s", &log, want)
		}
	}
}

func FuzzParseContainerd(f *testing.F) {
	f.Add([]byte(validatorOn))
	f.Add([]byte("imports = ['/etc/containerd/conf.d/*.toml']\n" + validatorOff))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := parseContainerd(text); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, fmt.Sprint(err))
		}
	})
}
