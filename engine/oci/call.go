package oci

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Call is a command line of an OCI runtime, as far as Candor reads it.
type Call struct {
	Args    []string // as given, without the runtime's own name
	Command string   // "" if there is none, as with --version
	ID      string   // ID of the container; "" if the command has no argument or several
	Root    string   // directory of the runtime's state files; "": the runtime's default
	Log     string   // file for errors that the engine reads
	JSON    bool     // the format of that file is JSON
	Systemd bool     // systemd creates the cgroups

	globals int // number of Args before the command
	options []option
}

// An option is an option of the command, with its words in Args.
type option struct {
	name, value string
	words       []string
	missing     bool // the option needs a value, but the command line ends
}

// The options of runc and crun that have a value. Parse treats all other options as switches.
var (
	globalValues  = []string{"log", "log-format", "log-level", "root", "criu", "rootless", "cgroup-manager"}
	commandValues = map[string][]string{
		"create": {"bundle", "b", "config", "f", "console-socket", "pid-file", "preserve-fds", "pidfd-socket"},
		"run":    {"bundle", "b", "config", "f", "console-socket", "pid-file", "preserve-fds", "pidfd-socket"},
		"update": {"resources", "r", "blkio-weight", "cpu-period", "cpu-quota", "cpu-burst", "cpu-share", "cpu-shares",
			"cpu-rt-period", "cpu-rt-runtime", "cpu-idle", "cpuset-cpus", "cpuset-mems", "kernel-memory", "kernel-memory-tcp",
			"memory", "memory-reservation", "memory-swap", "pids-limit", "l3-cache-schema", "mem-bw-schema"},
		"delete": {},
	}
)

// Parse parses a command line. It never fails, because the real runtime reports unknown words.
func Parse(args []string) Call {
	c := Call{Args: args}
	rest := args
	for len(rest) > 0 {
		o, n := nextOption(rest, globalValues)
		if n == 0 {
			break
		}
		switch o.name {
		case "root":
			c.Root = o.value
		case "log":
			c.Log = strings.TrimPrefix(o.value, "file:")
		case "log-format":
			c.JSON = o.value == "json"
		case "systemd-cgroup":
			c.Systemd = o.value != "false"
		case "cgroup-manager": // crun's
			c.Systemd = o.value == "systemd"
		}
		rest = rest[n:]
	}
	c.globals = len(args) - len(rest)
	if len(rest) == 0 {
		return c
	}
	c.Command = rest[0]
	if values, ours := commandValues[c.Command]; ours {
		c.parseOptions(rest[1:], values)
	}
	return c
}

// parseOptions parses the words after the command: options, and an argument.
func (c *Call) parseOptions(rest, values []string) {
	var words []string
	for len(rest) > 0 {
		o, n := nextOption(rest, values)
		if n == 0 {
			words, rest = append(words, rest[0]), rest[1:]
			continue
		}
		rest = rest[n:]
		if o.missing {
			return
		}
		if o.name == "" { // "--": words follow
			words = append(words, rest...)
			break
		}
		c.options = append(c.options, o)
	}
	if len(words) == 1 {
		c.ID = words[0]
	}
}

// nextOption parses the option at the beginning of args and returns its number of words, or 0 if the first word is no option.
// values names the options with a value. As in runc, one dash and two dashes are equal.
func nextOption(args []string, values []string) (o option, n int) {
	name, found := strings.CutPrefix(args[0], "-")
	if !found || name == "" {
		return o, 0
	}
	name = strings.TrimPrefix(name, "-")
	var hasValue bool
	o.name, o.value, hasValue = strings.Cut(name, "=")
	n = 1
	if !hasValue && slices.Contains(values, o.name) {
		if o.missing = len(args) == 1; !o.missing {
			o.value, n = args[1], 2
		}
	}
	o.words = args[:n]
	return o, n
}

// value returns the last value of an option of the command, by any of its names.
func (c *Call) value(names ...string) string {
	for _, o := range slices.Backward(c.options) {
		if slices.Contains(names, o.name) {
			return o.value
		}
	}
	return ""
}

// without returns Args without the named options of the command, and with the words of instead before the ID.
func (c *Call) without(names []string, instead ...string) []string {
	args := slices.Concat(c.Args[:c.globals], []string{c.Command})
	for _, o := range c.options {
		if !slices.Contains(names, o.name) {
			args = append(args, o.words...)
		}
	}
	return append(append(args, instead...), c.ID)
}

// checkID refuses a command line without a valid container ID.
func (c *Call) checkID() error {
	if c.ID == "" {
		return errors.New("container ID: must be a single argument")
	}
	if strings.HasPrefix(c.ID, "-") {
		return fmt.Errorf("container ID %.40q: must not begin with a dash", c.ID)
	}
	return nil
}

// bundle returns the directory of the container's configuration.
func (c *Call) bundle() string {
	if dir := c.value("bundle", "b"); dir != "" {
		return dir
	}
	return "."
}

// config returns the name of the configuration file in the bundle.
func (c *Call) config() string { return cmp.Or(c.value("config", "f"), configName) }
