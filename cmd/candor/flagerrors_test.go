package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// visibleCommands returns Candor's own commands without the hidden ones.
func visibleCommands() (list []*cobra.Command) {
	root, _ := newRoot()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "completion" || c.Name() == "help" {
			return
		}
		list = append(list, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return list
}

// refusesLine fails the test unless a command line is refused with a single line on standard error.
func refusesLine(t *testing.T, want string, args ...string) {
	t.Helper()
	code, out, errOut := command(t, "", args...)
	if code != exitBadInput || out != "" || !strings.HasPrefix(errOut, want) || strings.Count(errOut, "\n") != 1 {
		t.Errorf("candor %s: code %d, %q, %q; want %q", strings.Join(args, " "), code, out, errOut, want)
	}
}

// TestUnknownFlags: each command refuses an unknown flag in the same form.
func TestUnknownFlags(t *testing.T) {
	for _, c := range visibleCommands() {
		path := strings.Fields(c.CommandPath())[1:]
		for flag, shown := range map[string]string{"--no-such-flag": "--no-such-flag", "--no-such-flag=1": "--no-such-flag", "-!": "-!"} {
			want := c.CommandPath() + ": unknown flag " + shown + "; " + c.CommandPath() + " --help lists the flags\n"
			refusesLine(t, want, slices.Concat(path, []string{flag})...)
		}
	}
}

// TestBadFlagValues: each flag that accepts certain values refuses another one with the command, the flag and the accepted values. Flags for
// texts, such as names and files, are checked by their commands.
func TestBadFlagValues(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range visibleCommands() {
		path := strings.Fields(c.CommandPath())[1:]
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch kind := f.Value.Type(); kind {
			case "string", "stringArray", "stringSlice":
				return
			default:
				seen[kind] = true
			}
			args := slices.Concat(path, []string{"--" + f.Name + "=no value"})
			refusesLine(t, c.CommandPath()+": --"+f.Name+` "no value": `, args...)
			if _, _, errOut := command(t, "", args...); !strings.Contains(errOut, ": must ") {
				t.Errorf("candor %s: %q has no accepted values", strings.Join(args, " "), errOut)
			}
			if f.NoOptDefVal == "" {
				refusesLine(t, c.CommandPath()+": --"+f.Name+" without a value; ", slices.Concat(path, []string{"--" + f.Name})...)
			}
		})
	}
	for kind := range acceptedOf {
		if !seen[kind] {
			t.Errorf("no flag has the type %s: remove it from acceptedOf", kind)
		}
	}
}

// TestMissingFlags: each command that needs a flag or an argument names it and the accepted values.
func TestMissingFlags(t *testing.T) {
	const command = "COMMAND; must be -- COMMAND [ARG]..., "
	for line, want := range map[string]string{
		"advise":               "FILE; must be one recording",
		"classify":             "--cpu; must be limits",
		"classify --cpu 1":     command,
		"compare":              command,
		"compare -- true":      "--cpu; must be 10m to ",
		"ledger charge":        "--to; must be a container",
		"load":                 "--for; must be a time",
		"place":                "--apps; must be a file",
		"record -- true":       "--output; must be the file to write",
		"record -o /dev/null":  "target; must be one of --cgroup, ",
		"report":               "FILE; must be one report or more",
		"resize web":           "--cpu or --memory; must be the new limit",
		"run --cpu 1":          command,
		"run -- true":          "--cpu; must be a limit of 10m or more",
		"simulate":             "--trace; must be a trace",
		"trace import -o x":    "",
		"trace import azure:x": "--output; must be a file",
		"trace info":           "TRACE; must be a trace",
		"view --name x":        "--cpu; must be a limit of 10m or more",
	} {
		args := strings.Fields(line)
		if want == "" {
			refusesLine(t, errorPrefix(t, args)+"0 arguments: must be 1, ", args...)
			continue
		}
		refusesLine(t, errorPrefix(t, args)+"missing "+want, args...)
	}
	for _, line := range []string{"config check", "inspect", "release", "resize --cpu 1", "usage"} {
		args := strings.Fields(line)
		refusesLine(t, errorPrefix(t, args)+"0 arguments: must be 1, the ", args...)
	}
}
