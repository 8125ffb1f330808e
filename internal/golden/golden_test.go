package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A recorder is a test that records its failure, and does not end this test.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper()                        {}
func (r *recorder) Errorf(format string, a ...any) { r.failure = fmt.Sprintf(format, a...) }
func (r *recorder) Fatalf(format string, a ...any) { r.failure = fmt.Sprintf(format, a...); panic(r) }

// check returns the failure that Check reports.
func check(file, got string) string { return failure(Check, file, got) }

func failure(check func(testing.TB, string, string), file, got string) (message string) {
	r := &recorder{}
	defer func() {
		if p := recover(); p != nil && p != r {
			panic(p)
		}
		message = r.failure
	}()
	check(r, file, got)
	return r.failure
}

func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.txt")
	if failed := check(file, "a\n"); !strings.Contains(failed, "no such file") {
		t.Errorf("no file: %q", failed)
	}
	*Update = true
	failed := check(file, "a\n")
	*Update = false
	if text, err := os.ReadFile(file); failed != "" || err != nil || string(text) != "a\n" {
		t.Errorf("updated: %q, %q, %v", failed, text, err)
	}
	if failed := check(file, "a\n"); failed != "" {
		t.Errorf("the same: %q", failed)
	}
	if failed := check(file, "b\n"); !strings.Contains(failed, "out.txt differs") || !strings.HasSuffix(failed, "got:\nb\n") {
		t.Errorf("another: %q", failed)
	}
}

func TestCheckLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record.txt")
	checkLines := func(update bool, got, want, file string) {
		t.Helper()
		*Update = update
		failed := failure(CheckLines, file, got)
		*Update = false
		if want == "" != (failed == "") || !strings.Contains(failed, want) {
			t.Errorf("%q: %q, want %q", got, failed, want)
		}
	}
	checkLines(false, "a\nb\n", "no such file", file)
	checkLines(true, "a\nb\n", "", file)
	checkLines(false, "a\nb\n", "", file)
	checkLines(false, "a\nb\nc\n", "lacks lines (go test -update adds them):\nc", file)
	checkLines(false, "b\n", "without a counterpart:\na", file)
	checkLines(true, "b\n", "without a counterpart:\na", file)
	checkLines(true, "b\nc\n", "lacks lines", file) // a line is missing: nothing is added
	checkLines(true, "a\nb\nb\n", "", file)
	if text, err := os.ReadFile(file); err != nil || string(text) != "a\nb\nb\n" {
		t.Errorf("%q, %v", text, err)
	}
	checkLines(false, "a\nb\n", "without a counterpart:\nb", file)
}

func TestShape(t *testing.T) {
	for _, c := range []struct {
		documents string
		maps      []string
		want      string
	}{
		{"", nil, ""},
		{`[]`, nil, "array\n"},
		{`{"b":1,"a":{"c":[{"d":"x"},{"d":null,"e":true}]}}`, nil,
			"object\na object\na.c array\na.c[] object\na.c[].d null|string\na.c[].e boolean\nb number\n"},
		{`{"m":{"x":1,"y":2}}` + "\n" + `{"n":1}`, []string{"m"}, "object\nm object\nm.* number\nn number\n"},
	} {
		if got, err := Shape(c.documents, c.maps...); err != nil || got != c.want {
			t.Errorf("%s: %v\n%s; want\n%s", c.documents, err, got, c.want)
		}
	}
	if _, err := Shape(`{"a":1}}`); err == nil {
		t.Error("accepts text that is not JSON")
	}
}
