package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/view"
)

// A setup is a method to limit a program, and a column of the matrix.
type setup struct {
	name string
	run  func(dir string, args []string) (stdout string, err error)
}

// setups returns the matrix's columns for a limit.
func (l *lab) setups(limit hybrid.Milli) []setup {
	quota := cgroup.Settings{CPUs: l.usable, Quota: bandwidth.DefaultPeriod * time.Duration(limit) / 1000}
	set := cgroup.Settings{CPUs: highest(l.usable, limit.CPUs())}
	return []setup{
		{"no limit", func(dir string, args []string) (string, error) {
			return answer(exec.Command(args[0], args[1:]...), dir, nil)
		}},
		{"quota only", func(dir string, args []string) (string, error) { return l.inGroup(quota, dir, args) }},
		{"cpuset only", func(dir string, args []string) (string, error) { return l.inGroup(set, dir, args) }},
		{"candor", func(dir string, args []string) (string, error) {
			return answer(l.candor(append([]string{"run", "--cpu", limit.String(), "--"}, args...)...), dir, nil)
		}},
	}
}

// highest returns the n CPUs with the highest ids. On them, a program that assumes CPUs 0 to n-1 fails.
func highest(all cpuset.Set, n int) (set cpuset.Set) {
	for ; n > 0 && !all.IsEmpty(); n-- {
		set.Add(all.Last())
		all.Remove(all.Last())
	}
	return set
}

// answer runs a program and returns its output. It calls meanwhile after the start, before it waits for the end.
func answer(cmd *exec.Cmd, dir string, meanwhile func(pid int) error) (string, error) {
	var out, errOut bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &out, &errOut, withoutNumbers(cmd.Environ())
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		return "", err
	}
	limit := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() }) // against a hang
	defer limit.Stop()
	if meanwhile != nil {
		if err := meanwhile(cmd.Process.Pid); err != nil {
			cmd.Process.Kill()
			cmd.Wait()
			return "", err
		}
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, &errOut)
	}
	return out.String(), nil
}

// withoutNumbers removes the variables that state a number of CPUs from an environment.
func withoutNumbers(environ []string) []string {
	return slices.DeleteFunc(environ, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(view.Variables, func(v view.Variable) bool { return v.Name == name })
	})
}

// gateVariable makes this test binary wait for a byte on its standard input before it executes its arguments,
// so that the test can put the process into a group first.
const gateVariable = "CANDOR_MATRIX_GATE"

func init() {
	if os.Getenv(gateVariable) == "" {
		return
	}
	os.Unsetenv(gateVariable)
	if n, _ := os.Stdin.Read(make([]byte, 1)); n == 0 {
		os.Exit(1) // the test has ended
	}
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(127)
}

// inGroup runs a program in a new group with the given settings.
func (l *lab) inGroup(s cgroup.Settings, dir string, args []string) (string, error) {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), gateVariable+"=1")
	gate, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	group := l.tree.Group("probe")
	out, err := answer(cmd, dir, func(pid int) error {
		if err := group.Create(s, pid); err != nil {
			return err
		}
		_, err := gate.Write([]byte("\n"))
		return err
	})
	if e := group.Remove(); err == nil {
		err = e
	}
	return out, err
}

// runProbe runs a probe in a setup and returns the number that the probe prints.
func (s setup) runProbe(t *testing.T, dir string, args []string) int {
	t.Helper()
	out, err := s.run(dir, args)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatalf("%s: %s answered %q, want a number", s.name, strings.Join(args, " "), out)
	}
	return n
}
