package setup

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
)

const strangerEnv = "CANDOR_TEST_STRANGER"

// TestMain is also the stranger's program: it lives until its input ends.
func TestMain(m *testing.M) {
	if os.Getenv(strangerEnv) != "" {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// stranger starts a process that is not Candor's.
func stranger(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), strangerEnv+"=1")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// affinity is where the kernel lets a process run.
func affinity(t *testing.T, pid int) string {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		t.Fatal(err)
	}
	var cpus cpuset.Set
	for cpu := range cpuset.Max {
		if set.IsSet(cpu) {
			cpus.Add(cpu)
		}
	}
	return cpus.String()
}

// needGuest: the tests below confine every process of the machine.
func needGuest(t *testing.T) {
	t.Helper()
	if os.Getenv("CANDOR_IN_GUEST") == "" {
		t.Skip("changes the whole machine: runs in the guests of make test-guest")
	}
}

// open is this machine with a state and configuration of the test's own.
func open(t *testing.T) *Setup {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to open the machine's control groups")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "etc", "host.json")
	h, err := host.Open(host.Options{StateDir: filepath.Join(dir, "run"), Config: config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	tree, err := cgroup.Open(cgroup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tree.Remove()
		tree.Close()
	})
	s := &Setup{Host: h, Tree: tree, Config: config}
	t.Cleanup(func() {
		if _, err := s.Undo(false); err != nil {
			t.Error("clean up:", err)
		}
	})
	return s
}

// confined is every value that confines a group of the machine, and the configuration. A group that names no
// CPUs, or all of them, is not confined.
func confined(t *testing.T, s *Setup) map[string]string {
	t.Helper()
	possible, err := os.ReadFile("/sys/devices/system/cpu/possible")
	if err != nil {
		t.Fatal(err)
	}
	everything := strings.TrimSpace(string(possible))
	all := map[string]string{}
	for _, root := range []string{"/sys/fs/cgroup", filepath.Dir(s.Config)} {
		filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			name := filepath.Base(p)
			if err != nil || d.IsDir() || root == "/sys/fs/cgroup" && name != "cpuset.cpus" && name != "cpuset.cpus.partition" {
				return nil //nolint:nilerr // cgroups can end during the walk
			}
			text, _ := os.ReadFile(p)
			if is := strings.TrimSpace(string(text)); is != "" && is != everything && is != "member" {
				all[p] = is
			}
			return nil
		})
	}
	return all
}

func sameConfined(t *testing.T, what string, s *Setup, before map[string]string) {
	t.Helper()
	if after := confined(t, s); !maps.Equal(before, after) {
		t.Errorf("%s: confined was %v\nis %v", what, before, after)
	}
}
