package trace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestParts: the reader refuses missing and duplicate parts, and accepts parts that start after part 0.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	spoil(t, "testdata/google", dir, "", "", "")
	rename := func(from, to string) {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	rename(gTasks, "task_events-part-00003-of-00500.csv")
	if got := readError("google2011:"+dir, Options{}); !regexp.MustCompile(`part-00003.* follows .*part-00001.*: part 2 is missing`).MatchString(got) {
		t.Error(got)
	}
	rename(gTasks1, "task_events-part-00003-of-00500.csv.gz")
	if got := readError("google2011:"+dir, Options{}); !strings.Contains(got, "are the same part") {
		t.Error(got)
	}
	if err := os.Remove(filepath.Join(dir, "task_events-part-00003-of-00500.csv")); err != nil {
		t.Fatal(err)
	}
	if got := readError("google2011:"+dir, Options{}); !strings.Contains(got, "not a gzip file") {
		t.Error(got)
	}
	// With a later part alone, tasks can end whose start is in an earlier part.
	rename("task_events-part-00003-of-00500.csv.gz", gTasks1)
	r, err := Open("google2011:"+dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := text(r); !strings.Contains(got, "not modeled: 3 ends of tasks that started before the first part") {
		t.Error(got)
	}
}

// TestTruncatedGzip: a truncated compressed part is an error with its line; a lenient reader ends there.
func TestTruncatedGzip(t *testing.T) {
	dir := t.TempDir()
	spoil(t, "testdata/google", dir, "", "", "")
	plain := filepath.Join(dir, gTasks1)
	rows, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	zipped := compress(t, rows)
	broken := errors.Join(os.Remove(plain), os.WriteFile(plain+".gz", zipped[:len(zipped)-10], 0o644))
	if broken != nil {
		t.Fatal(broken)
	}
	if got := readError("google2011:"+dir, Options{}); !strings.Contains(got, gTasks1+".gz:") || !strings.Contains(got, "truncated: the compressed file breaks off") {
		t.Error(got)
	}
	if got := readError("google2011:"+dir, Options{Lenient: true}); got != "" {
		t.Error(got)
	}
	if err := os.WriteFile(plain+".gz", zipped, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := readError("google2011:"+dir, Options{}); got != "" {
		t.Errorf("the whole file: %s", got)
	}
}

// TestLaterPartNotGzip: a later part that is no gzip file is an error; a lenient reader omits this part.
func TestLaterPartNotGzip(t *testing.T) {
	dir := t.TempDir()
	spoil(t, "testdata/google", dir, "", "", "")
	if err := os.Rename(filepath.Join(dir, gTasks1), filepath.Join(dir, gTasks1+".gz")); err != nil {
		t.Fatal(err)
	}
	if got := readError("google2011:"+dir, Options{}); !strings.Contains(got, gTasks1+".gz") || !strings.Contains(got, "not a gzip file") {
		t.Error(got)
	}
	r, err := Open("google2011:"+dir, Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var e Event
	for events := 0; err == nil; events++ {
		if err = r.Next(&e); events > 1000 {
			t.Fatal("no end of the trace")
		}
	}
	if skipped := r.Report().Skipped; err != io.EOF || len(skipped) != 1 || skipped[0].Reason != "not a gzip file" || skipped[0].N != 1 {
		t.Errorf("%v, skipped %v", err, skipped)
	}
}
