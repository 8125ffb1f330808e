// Package golden compares the output of tests with files. go test -update rewrites the files, for review with the
// version control system.
package golden

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

// Update is the flag -update.
var Update = flag.Bool("update", false, "rewrite the files that tests compare with")

// Check fails a test if a text differs from the text of a file.
func Check(t testing.TB, file, got string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, file); got != want {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", file, got)
	}
}

// CheckLines fails a test if the lines of a file and of a text differ. The order of the lines does not matter. Each line of the
// file describes a part of an interface, so -update adds lines and removes none. Delete a line from the file by hand if users can
// do without it.
func CheckLines(t testing.TB, file, got string) {
	t.Helper()
	if *Update {
		if _, err := os.Stat(file); err != nil {
			Check(t, file, got)
		}
	}
	missing, added := missingLines(read(t, file), got), missingLines(got, read(t, file))
	if len(missing) > 0 {
		t.Errorf("%s has lines without a counterpart:\n%s", file, strings.Join(missing, "\n"))
	}
	if len(added) > 0 && *Update && len(missing) == 0 {
		Check(t, file, got)
	} else if len(added) > 0 {
		t.Errorf("%s lacks lines (go test -update adds them):\n%s", file, strings.Join(added, "\n"))
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	return string(text)
}

// missingLines returns the lines of a text that another text lacks. A line that occurs twice counts twice.
func missingLines(text, other string) (lines []string) {
	candidates := strings.Split(other, "\n")
	for line := range strings.SplitSeq(text, "\n") {
		if i := slices.Index(candidates, line); i >= 0 {
			candidates = slices.Delete(candidates, i, i+1)
		} else {
			lines = append(lines, line)
		}
	}
	return lines
}
