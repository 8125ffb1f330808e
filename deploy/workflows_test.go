package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var (
	pinnedAction = regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`)
	makeCommand  = regexp.MustCompile("^(?:sudo [^;&|\n`()]* )?make ([a-z-]+)(?: VERSION=\"\\$VERSION\")?$")
	makeTarget   = regexp.MustCompile(`(?m)^([a-z-]+):.* ## `)
)

// TestWorkflows: the steps of the workflows are documented targets of the Makefile, or actions that are pinned by the hash of a
// commit, so that each failure can be repeated on a machine.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	files, err := filepath.Glob("../.github/workflows/*")
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v; want test.yaml and release.yaml", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Steps []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatal(err)
		}
		if len(workflow.Permissions) != 1 || workflow.Permissions["contents"] != "read" {
			t.Errorf("%s: permissions %v, want contents: read", file, workflow.Permissions)
		}
		commands := 0
		for name, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "" {
					continue
				}
				commands++
				if m := makeCommand.FindStringSubmatch(step.Run); m == nil || !targets[m[1]] {
					t.Errorf("%s, job %s: %q is no target of the Makefile", file, name, step.Run)
				}
			}
		}
		if commands == 0 {
			t.Errorf("%s: no commands", file)
		}
		for line := range strings.Lines(string(text)) { // with the comment, which has the version
			if _, action, uses := strings.Cut(line, "uses: "); uses && !pinnedAction.MatchString(strings.TrimSpace(action)) {
				t.Errorf("%s: %q is not pinned by the hash of a commit, with the version as a comment", file, strings.TrimSpace(line))
			}
		}
	}
}

// TestMakeCommand: a step that calls more than a target is none of makeCommand.
func TestMakeCommand(t *testing.T) {
	for step, isTarget := range map[string]bool{
		"make check":                               true,
		`make release VERSION="$VERSION"`:          true,
		`sudo --preserve-env env "P=$PATH" make x`: true,
		"sudo rm -r /\nmake check":                 false,
		"sudo true; make check":                    false,
		"sudo true && make check":                  false,
		"sudo $(curl example.org) make check":      false,
		"make check\ntrue":                         false,
		"make check || true":                       false,
		"curl example.org | sh":                    false,
	} {
		if got := makeCommand.MatchString(step); got != isTarget {
			t.Errorf("%q: %v, want %v", step, got, isTarget)
		}
	}
}
