package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A saying is a test that fails without an end to this one.
type saying struct {
	testing.TB
	said string
}

func (s *saying) Helper()                        {}
func (s *saying) Errorf(format string, a ...any) { s.said = fmt.Sprintf(format, a...) }
func (s *saying) Fatalf(format string, a ...any) { s.said = fmt.Sprintf(format, a...); panic(s) }

// check returns the failure that Check reports.
func check(file, got string) string { return failure(Check, file, got) }

func failure(check func(testing.TB, string, string), file, got string) (said string) {
	s := &saying{}
	defer func() {
		if p := recover(); p != nil && p != s {
			panic(p)
		}
		said = s.said
	}()
	check(s, file, got)
	return s.said
}

func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.txt")
	if said := check(file, "a\n"); !strings.Contains(said, "no such file") {
		t.Errorf("no file: %q", said)
	}
	*Update = true
	said := check(file, "a\n")
	*Update = false
	if text, err := os.ReadFile(file); said != "" || err != nil || string(text) != "a\n" {
		t.Errorf("updated: %q, %q, %v", said, text, err)
	}
	if said := check(file, "a\n"); said != "" {
		t.Errorf("the same: %q", said)
	}
	if said := check(file, "b\n"); !strings.Contains(said, "out.txt differs") || !strings.HasSuffix(said, "got:\nb\n") {
		t.Errorf("another: %q", said)
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
