package e2e

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A badLine is an invalid command line with its exit code and a part of its message.
type badLine struct {
	args    []string
	code    int
	message string // a part of the message
}

const wantAmount = "must be a number of CPUs such as 2, 1.5 or 1500m"

// TestBadRun: bad input gives exit code 2 and a one-line message with the accepted values. Neither the state
// nor a group changes.
func TestBadRun(t *testing.T) {
	l := newLab(t)
	l.need(2)
	l.start([]string{"--cpu", "1", "--name", "web"}, "sleep")
	all, tooMany := strconv.Itoa(l.usable.Count()), strconv.Itoa(l.usable.Count()+1)
	ends := play("exit", "0")
	for _, flags := range []badLine{
		{[]string{"--cpu", "0"}, 2, "missing --cpu; must be a limit of 10m or more"},
		{[]string{"--cpu", "0.005"}, 2, "10m"},
		{[]string{"--cpu", "-1"}, 2, wantAmount},
		{[]string{"--cpu", "1e9"}, 2, wantAmount},
		{[]string{"--cpu", "abc"}, 2, wantAmount},
		{[]string{"--cpu", ""}, 2, wantAmount},
		{[]string{"--cpu", "1.0005"}, 2, "the smallest step is 1m"},
		{[]string{"--cpu", "99999999999999999999"}, 2, "the largest amount"},
		{[]string{"--cpu", tooMany}, 2, "no capacity"},
		{[]string{"--cpu", all}, 2, "no capacity"},
		{nil, 2, "missing --cpu; must be a limit of 10m or more"},
		{[]string{"--cpu", "0.5", "--name", "web"}, 2, "id taken"},
		{[]string{"--cpu", "0.5", "--name", "../web"}, 2, "must be 1 to 64 letters"},
		{[]string{"--cpu", "0.5", "--name", "tasks"}, 2, "must not be tasks"},
		{[]string{"--cpu", "0.5", "--name", "cgroup.procs"}, 2, "must not be tasks"},
		{[]string{"--cpu", "0.5", "--name", "cpu.shares"}, 2, "must not be tasks"},
		{[]string{"--cpu", "0.5", "--name", ""}, 2, "must be 1 to 64 letters"},
		{[]string{"--cpu", "0.5", "--name", strings.Repeat("x", 65)}, 2, "must be 1 to 64 letters"},
		{[]string{"--cpu", "0.5", "--class", "touchy"}, 2, "must be one of"},
		{[]string{"--cpu", "0.5", "--policy", "lax"}, 2, "must be one of"},
		{[]string{"--cpu", "0.5", "--topology", "near"}, 2, "must be one of"},
		{[]string{"--cpu", "0.5", "--view", "half"}, 2, "must be one of affinity, cpu, full, full+stat"},
		{[]string{"--cpu", "0.5", "--memory", "much"}, 2, "must be a number with the unit b, k, m or g, such as 512m"},
		{[]string{"--cpu", "0.5", "--memory", "-5m"}, 2, "must be a number with the unit b, k, m or g, such as 512m"},
		{[]string{"--cpu", "0.5", "--memory", "infg"}, 2, "must be a number with the unit b, k, m or g, such as 512m"},
		{[]string{"--cpu", "0.5", "--memory", "1x"}, 2, "must be a number with the unit b, k, m or g, such as 512m"},
		{[]string{"--cpu", "0.5", "--memory", "0"}, 2, "must be 4 MiB (4m) to "},
		{[]string{"--cpu", "0.5", "--memory", "4095k"}, 2, "must be 4 MiB (4m) to "},
		{[]string{"--cpu", "0.5", "--memory", "1000t"}, 2, "the memory of this machine"},
		{[]string{"--cpu", "0.5", "--memory-swap", "1g"}, 2, "missing --memory"},
		{[]string{"--cpu", "0.5", "--memory", "64m", "--memory-swap", "32m"}, 2, "must be --memory (64m) or more"},
		{[]string{"--cpu", "0.5", "--memory", "64m", "--memory-swap", "-2"}, 2, "or -1 for no limit"},
		{[]string{"--cpu", "0.5", "--period", "2s"}, 2, "must be 1ms to 1s"},
		{[]string{"--cpu", "0.5", "--period", "0"}, 2, "must be 1ms to 1s"},
		{[]string{"--cpu", "0.5", "--period", "long"}, 2, "duration"},
		{[]string{"--cpu", "0.5", "--period", "1ms"}, 2, "must be at least 1"},
		{[]string{"--cpu", "0.5", "--on-resize", "signal:NOPE"}, 2, "must be none, signal:NAME"},
		{[]string{"--cpu", "0.5", "--on-resize", "signal:KILL"}, 2, "no program can handle this signal; use another signal"},
		{[]string{"--cpu", "0.5", "--request", "0.2"}, 2, "--request is for flexible programs"},
		{[]string{"--class", "flexible", "--cpu", "0.5", "--request", "0.7"}, 2, "more than --cpu"},
		{[]string{"--cpu", "0.5", "--no-such-flag"}, 2, "unknown flag"},
		{[]string{"--cpu", "0.5", "--cgroup-driver", "magic"}, 2, "must be one of auto, cgroupfs, systemd"},
		{[]string{"--cpu", "0.5", "--cgroup-parent", "/../x"}, 2, "must be the path of a group"},
	} {
		t.Run(nameOf(flags.args), func(t *testing.T) {
			l.refuses(t, l.candor(slices.Concat([]string{"run"}, flags.args, ends)...), flags.code, flags.message)
		})
	}
}

// TestBadCommand is TestBadRun for the other commands and for the program to run.
func TestBadCommand(t *testing.T) {
	l := newLab(t)
	l.need(2)
	l.start([]string{"--cpu", "1", "--name", "web"}, "sleep")
	tooMany := strconv.Itoa(l.usable.Count() + 1)
	notExecutable := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(notExecutable, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, line := range []badLine{
		{[]string{"run", "--cpu", "0.5"}, 2, "missing COMMAND; must be -- COMMAND"},
		{[]string{"run", "--cpu", "0.5", "--", "/no/such/command"}, 127, "not found"},
		{[]string{"run", "--cpu", "0.5", "--", "no-such-command"}, 127, "not found"},
		{[]string{"run", "--cpu", "0.5", "--", ""}, 127, "not found"},
		{[]string{"run", "--cpu", "0.5", "--", notExecutable}, 126, "cannot execute it"},
		{[]string{"run", "--cpu", "0.5", "--", "/"}, 126, "cannot execute it"},
		{[]string{"resize", "web"}, 2, "missing --cpu or --memory; must be the new limit"},
		{[]string{"resize", "web", "--memory", "64m", "--request", "100m"}, 2, "missing --cpu; must be the new limit"},
		{[]string{"resize", "nobody", "--cpu", "1"}, 2, "candor ps lists them"},
		{[]string{"resize", "web", "--cpu", "0"}, 2, "limit"},
		{[]string{"resize", "web", "--cpu", "1e9"}, 2, wantAmount},
		{[]string{"resize", "web", "--cpu", tooMany}, 2, "no capacity"},
		{[]string{"resize", "--cpu", "1"}, 2, "must be 1, the NAME of a container"},
		{[]string{"release", "nobody"}, 2, "candor ps lists them"},
		{[]string{"release", "web"}, 2, "still run"},
		{[]string{"release", "a", "b"}, 2, "must be 1, the NAME of a container"},
		{[]string{"inspect", "nobody"}, 2, "candor ps lists them"},
		{[]string{"inspect", "no/body"}, 2, "candor ps lists them"},
		{[]string{"ps", "-o", "yaml"}, 2, "must be one of table, wide, json"},
		{[]string{"internal-exec", "1"}, 2, "an internal command"},
	} {
		t.Run(nameOf(line.args), func(t *testing.T) { l.refuses(t, l.candor(line.args...), line.code, line.message) })
	}
}

// nameOf returns the name of a subtest for a command line.
func nameOf(args []string) string { return strings.ReplaceAll(strings.Join(args, " "), "/", "|") }

// TestBadPlace: an environment in which Candor cannot work gives one line, too.
func TestBadPlace(t *testing.T) {
	l := newLab(t)
	l.start([]string{"--cpu", "0.5", "--name", "web"}, "sleep")
	args := append([]string{"run", "--cpu", "0.2"}, play("exit", "0")...)

	t.Run("no root and no delegated group", func(t *testing.T) {
		cmd := l.candor("run", "--cpu", "0.2", "--", os.Getenv("CANDOR_BIN"), "version")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		l.refuses(t, cmd, 2, "run as root")
	})
	t.Run("another state on the same groups", func(t *testing.T) {
		other := filepath.Join(t.TempDir(), "other")
		for _, command := range [][]string{append([]string{"run", "--state-dir", other}, args[1:]...),
			{"release", "web", "--kill", "--state-dir", other}, {"setup", "host", "--reserved", "1", "--state-dir", other}, {"resize", "web", "--cpu", "0.6", "--state-dir", other}} {
			l.refuses(t, l.candor(command...), 2, "belongs to the state in "+l.state)
		}
	})
	t.Run("no cpuset controller", func(t *testing.T) {
		cmd := l.candor(args...)
		inside := exec.Command("/proc/self/exe", append([]string{roleArgument, "exec-without-cgroups", cmd.Path}, cmd.Args[1:]...)...)
		inside.Env = cmd.Env
		inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		l.refuses(t, inside, 2, "no cpuset controller")
	})
}

// TestBadFiles: a bad state directory or host option gives one line, too.
func TestBadFiles(t *testing.T) {
	l := newLab(t)
	l.start([]string{"--cpu", "0.5", "--name", "web"}, "sleep")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mkfifo(at("pipe"), 0o600))
	for _, c := range []struct{ flag, file, text, message string }{
		{"--state-dir", "/dev/null", "", "/dev/null: not a directory; use"},
		{"--state-dir", "/dev/null/below", "", "/dev/null/below: not a directory; use"},
		{"--state-dir", at("file"), "x", at("file") + ": not a directory; use"},
		{"--config", at("list"), `{"reserved":"0-x"}`, "0-x"},
		{"--config", at("field"), `{"reservd":"0"}`, `unknown field "reservd"; write a file such as {"reserved":"0-1"`},
		{"--config", at("all"), fmt.Sprintf(`{"reserved":%q}`, l.usable), "no CPU of Candor's parent cgroup"},
		{"--config", at("absent"), `{"reserved":"1023"}`, "the machine does not have CPU 1023; use CPUs of"},
		{"--config", at("shared"), `{"minShared":"999"}`, "min-shared 999"},
		{"--config", at("pipe"), "", "not a plain file; write a file such as"},
		{"--config", dir, "", "not a plain file; write a file such as"},
	} {
		if c.text != "" {
			must(os.WriteFile(c.file, []byte(c.text), 0o644))
		}
		for _, command := range [][]string{
			append([]string{"run", c.flag, c.file, "--cpu", "0.2"}, play("exit", "0")...),
			{"resize", "web", "--cpu", "0.6", c.flag, c.file},
			{"release", "web", "--kill", c.flag, c.file},
			{"ps", c.flag, c.file}, {"inspect", "web", c.flag, c.file}, {"map", c.flag, c.file},
		} {
			t.Run(command[0]+" "+filepath.Base(c.file), func(t *testing.T) { l.refuses(t, l.candor(command...), 2, c.message) })
		}
	}
}

// refuses runs a command line, which must fail with the exit code and the message, and must change nothing.
func (l *lab) refuses(t *testing.T, cmd *exec.Cmd, code int, message string) {
	t.Helper()
	before := l.everything()
	got := do(t, cmd)
	switch line := strings.TrimSuffix(got.err, "\n"); {
	case got.code != code:
		t.Errorf("exit code %d, want %d: %q", got.code, code, got.err)
	case got.out != "" || !strings.HasPrefix(line, "candor ") || !strings.Contains(line, ": ") || strings.Contains(line, "\n") || len(line) > 400:
		t.Errorf("want one line on standard error, got %q and %q", got.err, got.out)
	case !strings.Contains(line, message):
		t.Errorf("got %q, want %q in it", line, message)
	}
	if after := l.everything(); !maps.Equal(after, before) {
		for name := range before {
			if after[name] != before[name] {
				t.Errorf("%s was %q, is %q", name, before[name], after[name])
			}
			delete(after, name)
		}
		t.Errorf("changed, or new: %q", after)
	}
}

// everything returns the content of the state directory and of the lab's groups, for comparison.
func (l *lab) everything() map[string]string {
	l.Helper()
	all := map[string]string{}
	read := func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			all[path] = "directory"
		default:
			data, err := os.ReadFile(path)
			all[path] = string(data)
			return err
		}
		return nil
	}
	if err := filepath.WalkDir(l.state, read); err != nil {
		l.Fatal(err)
	}
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*" + l.parent)
	if err != nil {
		l.Fatal(err)
	}
	hierarchies = append(hierarchies, "/sys/fs/cgroup"+l.parent)
	for _, dir := range hierarchies {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil: // not on this version
			case d.IsDir():
				all[path] = "group"
			case slices.Contains([]string{"cpuset.cpus", "cpuset.mems", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares", "cpu.max", "cpu.weight", "cgroup.procs"}, d.Name()):
				return read(path, d, err)
			}
			return nil //nolint:nilerr // a folder that this version of cgroups does not have
		})
	}
	return all
}
