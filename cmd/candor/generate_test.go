//go:build generate

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGenerate: each command has a man page with its help, and hidden commands have none. Two runs write the same files, with other
// environment variables too, which are defaults of flags.
func TestGenerate(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1764201600")
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		if i == 1 {
			for _, name := range defaultVariables {
				t.Setenv(name, "/planted")
			}
		}
		if err := generate(dir); err != nil {
			t.Fatal(err)
		}
	}
	if got := os.Getenv("KUBECONFIG"); got != "/planted" {
		t.Errorf("KUBECONFIG is %q afterwards", got)
	}
	for _, c := range visibleCommands() {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		page := readText(t, filepath.Join(dirs[0], "man/man1", name+".1"))
		for _, want := range []string{".TH ", "Nov 2025", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the man page lacks %q", name, want)
			}
		}
		if strings.Contains(page, "Auto generated") {
			t.Errorf("%s: the man page names its generator", name)
		}
	}
	err := filepath.WalkDir(dirs[0], func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dirs[0])
		if strings.Contains(name, "internal") || strings.Contains(name, "generate") {
			t.Errorf("%s: page of a hidden command", name)
		}
		if text := readText(t, path); text == "" || text != readText(t, dirs[1]+name) {
			t.Errorf("%s: empty, or two runs differ", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bash-completion/completions/candor", "zsh/site-functions/_candor", "fish/vendor_completions.d/candor.fish"} {
		if text := readText(t, filepath.Join(dirs[0], name)); !strings.Contains(text, "__complete") {
			t.Errorf("%s: no completion script", name)
		}
	}
}

// defaultVariables are the environment variables that are defaults of flags.
var defaultVariables = []string{
	"CANDOR_STATE_DIR", "CANDOR_CONFIG", "CANDOR_CGROUP_PARENT", "CANDOR_CGROUP_DRIVER", "XDG_RUNTIME_DIR", "KUBECONFIG", "NODE_NAME",
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMarkdown(t *testing.T) {
	for help, want := range map[string]string{
		"":                            "",
		"one\ntwo\n\nthree":           "one\ntwo\n\nthree",
		"a*b_c <d> `e` \\":            "a\\*b\\_c \\<d\\> \\`e\\` \\\\",
		"rows:\n  a_1  b\n\n  c\nend": "rows:\n\n```\n  a_1  b\n\n  c\n```\n\nend",
		"rows:\n  a":                  "rows:\n\n```\n  a\n```\n",
	} {
		if got := markdown(help); got != want {
			t.Errorf("markdown(%q) = %q, want %q", help, got, want)
		}
	}
}
