package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/golden"
)

var update = golden.Update

// docPages changes to the root of the repository and returns the pages of docs and of its direct
// subdirectories.
func docPages(t *testing.T) []string {
	t.Helper()
	t.Chdir("../..")
	var all []string
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no pages match %s: %v", pattern, err)
		}
		all = append(all, files...)
	}
	return all
}

// console matches examples of commands that have the same output on each machine:
//
//	$ candor plan … [| tail -n N]
//	output
var console = regexp.MustCompile("(?s)```(?:console)?\n\\$ candor ((?:(?:plan|topology) [^\n]*--machine \"|place )[^\n]*)\n(.*?)```")

// TestDocsConsoleExamples runs the commands in the pages and compares their output.
func TestDocsConsoleExamples(t *testing.T) {
	shown := 0
	for _, page := range append(docPages(t), "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		now := console.ReplaceAllStringFunc(string(text), func(block string) string {
			shown++
			parts := console.FindStringSubmatch(block)
			out := output(t, parts[1])
			if out != parts[2] && !*update {
				t.Errorf("%s: candor %s prints (go test -update rewrites the page)\n%s", page, parts[1], out)
			}
			return strings.TrimSuffix(block, parts[2]+"```") + out + "```"
		})
		if *update && now != string(text) {
			if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if shown < 3 {
		t.Errorf("found %d commands, want at least 3; the regular expression may be wrong", shown)
	}
}

// output runs a command line like a shell and returns its output. The only supported pipe is "| tail -n N".
func output(t *testing.T, line string) string {
	t.Helper()
	line, tail, piped := strings.Cut(line, " | tail -n ")
	var args []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	_, out, errOut := command(t, "", args...)
	out += errOut
	if piped {
		n, err := strconv.Atoi(tail)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(strings.TrimSuffix(out, "\n"), "\n")
		out = strings.Join(lines[max(0, len(lines)-n):], "") + "\n"
	}
	return out
}

var (
	link        = regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
	codeBlock   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the anchors that GitHub generates for the headings of a page. Duplicate headings are not
// supported.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		text := notInAnchor.ReplaceAllString(strings.ToLower(linkTarget.ReplaceAllString(match[1], "")), "")
		all[strings.ReplaceAll(text, " ", "-")] = true
	}
	return all
}

// TestDocsLinks checks that each relative link has an existing file and heading, and that docs/index.md lists
// each page.
func TestDocsLinks(t *testing.T) {
	const index = "docs/index.md"
	listed := map[string]bool{index: true}
	docs := docPages(t)
	for _, page := range append(docs, "README.md", "SECURITY.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			target, anchor := match[1], match[2]
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", page, target, err)
				continue
			}
			if page == index {
				listed[file] = true
			}
			if anchor == "" {
				continue
			}
			linked, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(linked))[anchor] {
				t.Errorf("%s links to %s#%s, which is not a heading", page, target, anchor)
			}
		}
	}
	for _, page := range docs {
		if !listed[page] {
			t.Errorf("%s does not list %s", index, page)
		}
	}
}

var (
	packageRow  = regexp.MustCompile("(?m)^\\| (`[^|]*)")
	packageName = regexp.MustCompile("`([^`]*)`")
)

// TestArchitectureListsPackages checks that the tables of docs/architecture.md list exactly the package
// directories.
func TestArchitectureListsPackages(t *testing.T) {
	t.Chdir("../..")
	const page = "docs/architecture.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range packageRow.FindAllStringSubmatch(string(text), -1) {
		for _, name := range packageName.FindAllStringSubmatch(row[1], -1) {
			listed[name[1]] = true
		}
	}
	for _, folder := range packageFolders(t) {
		if !listed[folder] {
			t.Errorf("%s does not list %s", page, folder)
		}
		delete(listed, folder)
	}
	for folder := range listed {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			t.Errorf("%s lists %s, which is not a folder", page, folder)
		}
	}
}

// packageFolders returns the directories with Go files, except test data, scripts and the main packages of
// nested modules.
func packageFolders(t *testing.T) (folders []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != "." && (name[0] == '.' || name == "testdata" || name == "scripts" || path == "kube/scheduler/cmd" || path == "kube/kubectl-candor/cmd") {
			return filepath.SkipDir
		}
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 {
			folders = append(folders, path)
		}
		return nil
	})
	if err != nil || len(folders) < 40 {
		t.Fatalf("%d package folders, %v", len(folders), err)
	}
	return folders
}
