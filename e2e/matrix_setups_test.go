package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/view"
)

// A setup is a way to limit a program: a column of the matrix.
type setup struct {
	name  string
	start func(ctx context.Context, dir string, args []string) (stdout string, err error)
}

// setups returns the matrix's columns for a limit.
func setups(t *testing.T, limit hybrid.Milli) []setup {
	tree, err := cgroup.Open(cgroup.Options{Parent: fmt.Sprintf("/candor-matrix-%d", os.Getpid()), Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
		tree.Close()
	})
	all, _, err := tree.Effective()
	if err != nil {
		t.Fatal(err)
	}
	quota := cgroup.Settings{CPUs: all, Period: cgroup.DefaultPeriod, Quota: cgroup.DefaultPeriod * time.Duration(limit) / 1000}
	set := cgroup.Settings{CPUs: highest(all, limit.CPUs())}
	return []setup{
		{"no limit", plain},
		{"quota only", inGroup(tree, quota)},
		{"cpuset only", inGroup(tree, set)},
		{"candor", inCandor(t, limit)},
	}
}

// highest returns the n CPUs with the highest ids: programs that count from 0 go wrong on them.
func highest(all cpuset.Set, n int) (set cpuset.Set) {
	for ; n > 0 && !all.IsEmpty(); n-- {
		set.Add(all.Last())
		all.Remove(all.Last())
	}
	return set
}

// waitVariable makes a start of this test binary a process that waits for a line
// on its standard input and then becomes its arguments: time to put it into a group.
const waitVariable = "CANDOR_MATRIX_WAIT"

func init() {
	if os.Getenv(waitVariable) == "" {
		return
	}
	os.Unsetenv(waitVariable)
	if n, _ := os.Stdin.Read(make([]byte, 1)); n == 0 {
		os.Exit(1) // the test has gone
	}
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(127)
}

func command(ctx context.Context, dir string, args []string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, stderr
	cmd.Env = environ()
	cmd.WaitDelay = 5 * time.Second
	return cmd, stdout, stderr
}

// environ is the environment without the variables that name a number of CPUs.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(view.Variables, func(v view.Variable) bool { return v.Name == name })
	})
}

func plain(ctx context.Context, dir string, args []string) (string, error) {
	cmd, stdout, stderr := command(ctx, dir, args)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr)
	}
	return stdout.String(), nil
}

// inGroup runs programs in a group with the given settings, each in a new one.
func inGroup(tree *cgroup.Tree, s cgroup.Settings) func(context.Context, string, []string) (string, error) {
	return func(ctx context.Context, dir string, args []string) (out string, err error) {
		cmd, stdout, stderr := command(ctx, dir, append([]string{"/proc/self/exe"}, args...))
		cmd.Env = append(environ(), waitVariable+"=1")
		gate, err := cmd.StdinPipe()
		if err != nil {
			return "", err
		}
		if err := cmd.Start(); err != nil {
			return "", err
		}
		group := tree.Group("probe")
		if err := group.Create(s, cmd.Process.Pid); err != nil {
			cmd.Process.Kill()
			cmd.Wait()
			return "", err
		}
		gate.Write([]byte("\n"))
		gate.Close()
		err = cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr)
		}
		if e := group.Remove(); err == nil {
			err = e
		}
		return stdout.String(), err
	}
}

// inCandor runs programs by candor run, with a state and a group of their own.
func inCandor(t *testing.T, limit hybrid.Milli) func(context.Context, string, []string) (string, error) {
	state, err := os.MkdirTemp("/run", "candor-matrix-")
	if err != nil {
		t.Fatal(err)
	}
	parent := fmt.Sprintf("/candor-matrix-run-%d", os.Getpid())
	t.Cleanup(func() {
		os.RemoveAll(state)
		if tree, err := cgroup.Open(cgroup.Options{Parent: parent, Driver: cgroup.Cgroupfs}); err == nil {
			tree.Remove()
			tree.Close()
		}
	})
	candor := []string{candorBinary(t), "run", "--cpu", limit.String(), "--state-dir", state,
		"--cgroup-parent", parent, "--cgroup-driver", "cgroupfs", "--"}
	return func(ctx context.Context, dir string, args []string) (string, error) {
		return plain(ctx, dir, append(candor, args...))
	}
}

// candorBinary returns the program under test, which it builds unless CANDOR_BIN names one.
func candorBinary(t *testing.T) string {
	if bin := os.Getenv("CANDOR_BIN"); bin != "" {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "candor")
	cmd := exec.Command("go", "build", "-o", bin, "../cmd/candor")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/candor: %v\n%s", err, out)
	}
	return bin
}

// ask runs a probe in a setup and returns its number.
func ask(t *testing.T, s setup, dir string, args []string) (int, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // against a hang
	defer cancel()
	out, err := s.start(ctx, dir, args)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		return 0, fmt.Errorf("%s: answered %q, want a number", strings.Join(args, " "), out)
	}
	return n, nil
}
