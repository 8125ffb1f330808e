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

// pages are the README and the pages of docs, from the top of the project.
func pages(t *testing.T) []string {
	t.Helper()
	t.Chdir("../..")
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no docs", err)
	}
	return append(files, "README.md")
}

// console finds what pages show of commands that answer the same everywhere:
//
//	$ candor plan … [| tail -n N]
//	output
var console = regexp.MustCompile("(?s)```(?:console)?\n\\$ candor ((?:(?:plan|topology) [^\n]*--machine \"|place )[^\n]*)\n(.*?)```")

// TestDocsShowTheTruth runs the commands that the pages show.
func TestDocsShowTheTruth(t *testing.T) {
	shown := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		now := console.ReplaceAllStringFunc(string(text), func(block string) string {
			shown++
			parts := console.FindStringSubmatch(block)
			out := output(t, parts[1])
			if out != parts[2] && !*update {
				t.Errorf("%s: candor %s prints (go test -update writes it anew)\n%s", page, parts[1], out)
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
		t.Errorf("found %d commands: is the expression wrong?", shown)
	}
}

// output runs a command line as a shell would, with the one pipe that pages use.
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

var link = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)

// TestLinks: every link within the project leads to a file, and every page is
// in the index.
func TestLinks(t *testing.T) {
	index := map[string]bool{"docs/index.md": true}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(to[1], "://") {
				continue
			}
			file := filepath.Join(filepath.Dir(page), to[1])
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", page, to[1], err)
			}
			if page == "docs/index.md" {
				index[file] = true
			}
		}
	}
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range files {
		if !index[page] {
			t.Errorf("docs/index.md does not list %s", page)
		}
	}
}

// TestDocsNameEveryRoom: docs/code.md names each package, and no other.
func TestDocsNameEveryRoom(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("docs/code.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`[^|]*)").FindAllStringSubmatch(string(text), -1) {
		for _, room := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[1], -1) {
			named[room[1]] = true
		}
	}
	for _, room := range rooms(t) {
		if !named[room] {
			t.Errorf("docs/code.md does not say what is in %s", room)
		}
		delete(named, room)
	}
	for room := range named {
		if info, err := os.Stat(room); err != nil || !info.IsDir() {
			t.Errorf("docs/code.md names %s, which is no folder", room)
		}
	}
}

// rooms are the folders that hold a package; what tests and scripts have beside it is none.
func rooms(t *testing.T) (rooms []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != "." && (name[0] == '.' || name == "testdata" || name == "scripts" || path == "kube/scheduler/cmd") {
			return filepath.SkipDir
		}
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 {
			rooms = append(rooms, path)
		}
		return nil
	})
	if err != nil || len(rooms) < 40 {
		t.Fatalf("%d rooms, %v", len(rooms), err)
	}
	return rooms
}
