package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/candor-project/candor/bandwidth/timescale"
	"github.com/candor-project/candor/internal/podname"
)

// recordCommand returns a function that takes the length of a recording. The function returns a shell command that records the
// group again, for this length. The name of the group comes from the recording and is untrusted.
func recordCommand(file, group string, interval time.Duration) func(time.Duration) string {
	selection := recordSelection(errorText(group))
	return func(length time.Duration) string {
		return fmt.Sprintf("candor record -o %s --interval %s --duration %s %s", shellWord(newName(file)), interval, timescale.Length(length), selection)
	}
}

// recordSelection returns the arguments of candor record that select a group. If a command was recorded, the name of the group is
// this command with its arguments. A name that is an absolute path can therefore be a cgroup or a program, and a name with two
// slashes a container of a pod or a program.
func recordSelection(group string) string {
	isFile := func() bool {
		i, err := os.Stat(group)
		return err == nil && i.Mode().IsRegular()
	}
	hasWords := strings.Contains(group, " ")
	switch {
	case strings.HasSuffix(group, "…"): // a long command, shortened
		return "-- COMMAND"
	case strings.HasPrefix(group, "/") && !hasWords && !isFile():
		return "--cgroup " + shellWord(group)
	case !hasWords && (!strings.Contains(group, "/") || podname.Parse(group) != (podname.Name{}) && !isFile()):
		return "--container " + shellWord(group)
	case strings.Trim(group, " ") == "" || strings.ContainsFunc(group, func(c rune) bool { return c != ' ' && isSpecial(c) }):
		return "-- COMMAND" // the boundaries of the command's words are unknown
	}
	return "-- " + group
}

// newName returns a name for another recording, such as web-2.usage for web.usage, because candor record overwrites an existing
// file.
func newName(file string) string {
	extension := filepath.Ext(file)
	base := strings.TrimSuffix(file, extension)
	for n := 2; ; n++ {
		name := fmt.Sprintf("%s-%d%s", base, n, extension)
		if _, err := os.Lstat(name); err != nil || n == 100 {
			return name
		}
	}
}

// shellWord returns a text as a single word of a shell, without control characters.
func shellWord(text string) string {
	text = errorText(text)
	if text != "" && text[0] != '-' && !strings.ContainsFunc(text, isSpecial) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// isSpecial reports whether a character can have a meaning for a shell.
func isSpecial(c rune) bool {
	isPlain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:=@%+,", c)
	return !isPlain
}
