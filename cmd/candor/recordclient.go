package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// starters maps each program that starts containers or units in other cgroups to the subcommands that do so. For nil, every call
// of the program does. The recording of such a command would be almost empty.
var starters = map[string][]string{
	"candor":         {"classify", "compare", "isolate", "run", "view"},
	"crictl":         {"exec", "run", "runp", "start"},
	"ctr":            {"run", "t", "task", "tasks"},
	"docker":         {"build", "buildx", "compose", "container", "exec", "run", "start"},
	"docker-compose": {"exec", "run", "start", "up"},
	"kubectl":        {"apply", "create", "debug", "exec", "run"},
	"machinectl":     {"shell", "start"},
	"nerdctl":        {"build", "compose", "exec", "run", "start"},
	"podman":         {"build", "container", "exec", "kube", "play", "run", "start"},
	"systemd-run":    nil,
}

// wrappers are programs that execute the command in their arguments in the same cgroup.
var wrappers = []string{"chrt", "env", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf", "sudo", "taskset", "time", "timeout"}

// starterIn returns the call in a command line that starts its work in another cgroup, such as "docker run", or "". It also finds the call
// behind wrappers, and at the start of a script of sh -c.
func starterIn(args []string) string {
	for len(args) > 0 {
		name, rest := filepath.Base(args[0]), args[1:]
		subcommands, isStarter := starters[name]
		switch {
		case isStarter && subcommands == nil:
			return name
		case isStarter:
			if i := slices.IndexFunc(rest, func(word string) bool { return slices.Contains(subcommands, word) }); i >= 0 {
				return name + " " + rest[i]
			}
			return ""
		case slices.Contains([]string{"bash", "dash", "sh"}, name) && len(rest) >= 2 && rest[0] == "-c":
			args = strings.Fields(rest[1])
		case slices.Contains(wrappers, name):
			args = skipOptions(rest)
		default:
			return ""
		}
	}
	return ""
}

// skipOptions skips the options, assignments and numbers before the command of a wrapper, as in env A=b, nice -n 5, timeout 10s.
func skipOptions(words []string) []string {
	i := slices.IndexFunc(words, func(word string) bool {
		isNumber := word != "" && word[0] >= '0' && word[0] <= '9'
		return !isNumber && !strings.HasPrefix(word, "-") && !strings.Contains(word, "=")
	})
	if i < 0 {
		return nil
	}
	return words[i:]
}

// warnEmpty writes a line about a recorded command that used almost no CPU time although it ran for a while: its work can be in another
// cgroup.
func warnEmpty(out io.Writer, used, took time.Duration, file string) {
	if took < time.Second || used > took/100 {
		return
	}
	fmt.Fprintf(out, "candor: the command used %.3f CPUs; if it started a container or a service, record that with candor record -o %s --container NAME, or --cgroup PATH\n",
		used.Seconds()/took.Seconds(), file)
}
