package state

import (
	"strings"
	"testing"
)

func TestProgramName(t *testing.T) {
	for command, want := range map[string]string{
		"":                                   "",
		" ":                                  "",
		"sleep":                              "sleep",
		"sleep 9999":                         "sleep",
		"/usr/bin/java -jar /x/" + "hunter2": "java",
		"./" + strings.Repeat("é", 200):      strings.Repeat("é", 100),
		"/":                                  "/",
		"-bash":                              "-bash",
		"(unknown)":                          "(unknown)",
		" \xff/\xfe x":                       "�",
	} {
		got := ProgramName(command)
		if got != want || ProgramName(got) != got {
			t.Errorf("%q: %q, again %q; want %q", command, got, ProgramName(got), want)
		}
	}
}
