package oci

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		line                     string
		command, id, bundle, log string
		json                     bool
		without                  string // the line without the flags resources and cpu-quota, with X inserted
	}{
		{line: "", without: ""},
		{line: "--version"},
		{line: "--root /run/x --log /l --log-format json create --bundle /b --pid-file /p abc",
			command: "create", id: "abc", bundle: "/b", log: "/l", json: true},
		{line: "--root=/run/x --log=/l --systemd-cgroup create -b /b abc", command: "create", id: "abc", bundle: "/b", log: "/l"},
		{line: "-root /run/x run abc", command: "run", id: "abc", bundle: "."},
		{line: "create abc --bundle /b", command: "create", id: "abc", bundle: "/b"}, // crun accepts this order
		{line: "create --no-pivot --bundle=/b -- -abc", command: "create", id: "-abc", bundle: "/b"},
		{line: "create --bundle /b", command: "create", bundle: "/b"},
		{line: "create a b", command: "create", bundle: "."},
		{line: "create --bundle", command: "create", bundle: "."},
		{line: "--log file:/l --log-level debug state abc", command: "state", log: "/l"},
		{line: "exec --cwd / abc create --bundle /b x", command: "exec"},
		{line: "update --resources - abc", command: "update", id: "abc", without: "update X abc"},
		{line: "--root /r update --cpu-quota 5 --memory 7 abc", command: "update", id: "abc", without: "--root /r update --memory 7 X abc"},
		{line: "- create", command: "-"},
	}
	for _, test := range tests {
		c := Parse(strings.Fields(test.line))
		if test.bundle != "" && c.bundle() != test.bundle {
			t.Errorf("%q: bundle %q", test.line, c.bundle())
		}
		if c.Command != test.command || c.ID != test.id || c.Log != test.log || c.JSON != test.json {
			t.Errorf("%q: %+v", test.line, c)
		}
		if test.without != "" {
			if got := strings.Join(c.without([]string{"resources", "cpu-quota"}, "X"), " "); got != test.without {
				t.Errorf("%q: without: %q, want %q", test.line, got, test.without)
			}
		}
	}
}

func TestName(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for _, test := range []struct{ root, id, want string }{
		{"", id, "0123456789ab"},
		{"/run/containerd/runc/a", id, "0123456789ab"},
		{"", strings.ToUpper(id), strings.ToUpper(id)},
		{"", id[:63], id[:63]},
		{"", "web", "web"},
		{"", strings.Repeat("z", 64), strings.Repeat("z", 64)},
		{"/run/runc", "web", "web"},
		{"/run/containerd/runc/default", "web", "web"},
		{"/run/containerd/runc/a", "web", "a--web"},
		{"/run/containerd/runc/b.c/", "web", "b.c--web"},
		{"/run/docker/runtime-runc/moby", "web", "web"},
		{"/x/runc/-a", "web", "web"},
		{"/x/runc/a", strings.Repeat("z", 62), "a--" + strings.Repeat("z", 52) + "-36d46a91"},
	} {
		if got := (&Call{ID: test.id, Root: test.root}).Name(); got != test.want {
			t.Errorf("%s %q: %q, want %q", test.root, test.id, got, test.want)
		}
	}
}

// FuzzParse: Parse keeps any command line unchanged, and the parsed values are words of it. A line rebuilt by
// without parses to the same values.
func FuzzParse(f *testing.F) {
	f.Add("--root /r --log /l --log-format json create --bundle /b --pid-file p id")
	f.Add("--log=file:x update -r - id")
	f.Add("run -- --bundle")
	f.Add("create --bundle= - -- --")
	f.Add("run 0 -b")
	f.Add("create -- -b=0")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		c := Parse(slices.Clone(args))
		if !slices.Equal(c.Args, args) {
			t.Fatalf("%q became %q", args, c.Args)
		}
		if c.Command != "" && args[c.globals] != c.Command || c.ID != "" && !slices.Contains(args[c.globals+1:], c.ID) {
			t.Errorf("%q: %+v", args, c)
		}
		if c.checkID() != nil { // such a line cannot be rebuilt
			return
		}
		rebuilt := Parse(c.without(nil))
		if rebuilt.ID != c.ID || rebuilt.bundle() != c.bundle() || rebuilt.Log != c.Log || rebuilt.Name() != c.Name() {
			t.Errorf("%q: rebuilt as %q", args, c.without(nil))
		}
	})
}

// TestEngineName: the name in the engine comes from the annotations or from Docker's files. A name that no engine accepts, or that
// equals Candor's name, is left out.
func TestEngineName(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	dir := filepath.Join(t.TempDir(), id)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/config.v2.json", []byte(`{"Name":"/web","ID":"`+id+`"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"mounts":[{"destination":"/etc/hostname","source":"` + dir + `/hostname"}]}`: "web",
		`{"mounts":[{"destination":"/etc/hostname","source":"/nowhere/hostname"}]}`:    "",
		`{"annotations":{"nerdctl/name":"box"}}`:                                       "box",
		`{"annotations":{"nerdctl/name":"abc"}}`:                                       "", // Candor's name
		`{"annotations":{"nerdctl/name":"a b"}}`:                                       "",
		`{"annotations":{"nerdctl/name":"a/b"}}`:                                       "",
		`{"annotations":{"nerdctl/name":"` + strings.Repeat("x", 513) + `"}}`:          "",
		`{"annotations":{"io.kubernetes.cri.sandbox-namespace":"shop","io.kubernetes.cri.sandbox-name":"web-0","io.kubernetes.cri.container-name":"app"}}`: "shop/web-0/app",
		`{}`: "", // the parent of the test is no conmon
	} {
		cfg, err := parseConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Call{ID: "abc"}).engineName(cfg); got != want {
			t.Errorf("%.200s: got %q, want %q", text, got, want)
		}
	}
}
