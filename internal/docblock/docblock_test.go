package docblock

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const page = "# Title\n\n" +
	"### First\n\n```\n# one 1\n# two \\\n    --more \\\n    --most\n2\n# three\n```\n\nText.\n\n```yaml\na: b\n```\n\n```\n# four\n3\n4\n```\n\n" +
	"### Second\n\n| way | command |\n| --- | --- |\n| deb | `apt remove x`; `apt purge x` also removes `/etc/x` |\n| rpm, deb | nothing |\n\n" +
	"#### Third\n\n```\n# five\n```\n"

// write writes the page of this test.
func write(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestBlocks(t *testing.T) {
	file := write(t)
	for _, c := range []struct {
		heading, failure string
		want             []Block
	}{
		{"### First", "", []Block{{[]string{"one 1", "two \\\n    --more \\\n    --most", "three"}, "2\n"}, {[]string{"four"}, "3\n4\n"}}},
		{"#### Third", "", []Block{{[]string{"five"}, ""}}},
		{"### Second", "no block of commands", nil},
		{"## First", `no heading "## First"`, nil},
		{"# one 1", "no heading", nil}, // a command is no heading
	} {
		got, err := Blocks(file, c.heading)
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
			t.Errorf("%s: %q, %v; want %q, %q", c.heading, got, err, c.want, c.failure)
		}
	}
	if err := os.WriteFile(file, []byte("### First\n\n```\n# one\n```\n\n```\n# two\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Blocks(file, "### First"); err == nil || !strings.Contains(err.Error(), "has no end") {
		t.Errorf("a block without an end: %q, %v", got, err)
	}
	if _, err := Blocks(file+".none", "### First"); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

func TestRow(t *testing.T) {
	file := write(t)
	for _, c := range []struct {
		heading, first, failure string
		want                    []string
	}{
		{"### Second", "deb", "", []string{"apt remove x", "apt purge x"}},
		{"### Second", "rpm, deb", "no row", nil}, // without a command
		{"### Second", "rpm", `no row "rpm" with commands`, nil},
		{"### First", "deb", "no row", nil},
		{"### Fourth", "deb", "no heading", nil},
	} {
		got, err := Row(file, c.heading, c.first)
		if !slices.Equal(got, c.want) || (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
			t.Errorf("%s, %s: %q, %v; want %q, %q", c.heading, c.first, got, err, c.want, c.failure)
		}
	}
}
