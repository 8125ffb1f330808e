package containerd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/ledgertables"
	"github.com/candor-project/candor/internal/procfs"
)

// A helperEngine is an engine that starts a helper process for each container: Podman (conmon) or nerdctl (its logger). The methods of the
// paper need such a helper. The groups in the hierarchy of cpu, with N of the process ID:
//
//	none   /candor-ledger-engine-N            the helpers
//	       /candor-ledger-containers-N/ID     a container with its quota
//	A      /candor-ledger-containers-N/ID     a container with its quota, and its helper
//	B      /candor-ledger-containers-N/c1     the quota
//	       /candor-ledger-containers-N/c1/ID  a container
//	       /candor-ledger-containers-N/c1/helper
//	place  /candor-ledger-placed-N/ID         a container with its quota; Candor's parent cgroup is /candor-ledger-placed-N
//	       /candor-ledger-placed-N/ID/candor-helper
type helperEngine struct {
	*testing.T
	dir        string // of the logs and of Candor's state
	containers string // parent group of the containers
	placed     string // Candor's parent group
	group      string // of the engine
	runtime    string // script that executes candor-runc
	number     int    // of the last container
	helperDriver
}

// helperDriver is the command line of an engine.
type helperDriver struct {
	// command returns the program and the arguments of a command on a container.
	command func(method ledgertables.Method, args ...string) []string
	// helperOf returns the helper of a container, given the container's first process.
	helperOf func(method ledgertables.Method, id string, program int) (pid int, err error)
	flags    func(log string) []string // of run, with the file of the log
	place    []string                  // more flags of run for the method Place
	remove   []string                  // command that kills and removes a container
}

// newHelperEngine returns an engine without a driver. The end of the test removes its groups, after the containers.
func newHelperEngine(t *testing.T) *helperEngine {
	t.Helper()
	e := &helperEngine{
		T: t, dir: t.TempDir(), group: newEngineGroup(t),
		containers: fmt.Sprintf("/candor-ledger-containers-%d", os.Getpid()), placed: fmt.Sprintf("/candor-ledger-placed-%d", os.Getpid()),
	}
	t.Cleanup(func() {
		removeLedgerGroups(t, e.containers)
		removeLedgerGroups(t, e.placed)
	})
	makeGroup(t, e.containers)
	e.runtime = e.runtimeScript()
	return e
}

// runtimeScript writes a script that executes candor-runc with a state of its own. Candor uses the same CPU as the other methods.
func (e *helperEngine) runtimeScript() string {
	e.Helper()
	link, script, options := filepath.Join(e.dir, "candor-runc"), filepath.Join(e.dir, "runtime"), filepath.Join(e.dir, "host.json")
	runc, err := exec.LookPath("runc")
	if err != nil {
		e.Fatal(err)
	}
	if err := os.Symlink(candorBinary(e.T), link); err != nil {
		e.Fatal(err)
	}
	text := fmt.Sprintf("#!/bin/sh\nexport CANDOR_STATE_DIR='%s' CANDOR_CONFIG='%s' CANDOR_CGROUP_PARENT='%s' CANDOR_CGROUP_DRIVER=cgroupfs CANDOR_RUNTIME='%s'\nexec '%s' \"$@\"\n",
		filepath.Join(e.dir, "state"), options, e.placed, runc, link)
	for file, text := range map[string]string{script: text, options: `{"reserved": "0"}`} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			e.Fatal(err)
		}
	}
	return script
}

func (e *helperEngine) engineGroup() string { return e.group }

// try runs a command on a container.
func (e *helperEngine) try(method ledgertables.Method, args ...string) (string, error) {
	words := e.command(method, args...)
	cmd := exec.Command(words[0], words[1:]...)
	var errOut strings.Builder
	cmd.Stderr, cmd.WaitDelay = &errOut, time.Minute
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, errOut.String())
	}
	return strings.TrimSpace(string(out)), err
}

// does runs a command on a container, which must succeed, and returns its output.
func (e *helperEngine) does(method ledgertables.Method, args ...string) string {
	e.Helper()
	out, err := e.try(method, args...)
	if err != nil {
		e.Fatal(err)
	}
	return out
}

func (e *helperEngine) source(method ledgertables.Method, quota time.Duration, script string) *ledgerSource {
	e.Helper()
	e.number++
	name := fmt.Sprintf("c%d", e.number)
	s := &ledgerSource{parent: e.containers, log: filepath.Join(e.dir, name+".log")}
	args := append([]string{"run", "-d", "--network=none", "--name=" + name}, e.flags(s.log)...)
	limit := []string{"--cpu-period=" + strconv.FormatInt(ledgertables.Period.Microseconds(), 10), "--cpu-quota=" + strconv.FormatInt(quota.Microseconds(), 10)}
	family := e.containers + "/" + name // of method B
	switch method {
	case ledgertables.Place:
		s.parent = e.placed
		args = slices.Concat(args, limit, e.driverFlags())
	case ledgertables.B:
		writeKernelFile(e.T, makeGroup(e.T, family)[0]+"/cpu.cfs_quota_us", strconv.FormatInt(quota.Microseconds(), 10))
		args = append(args, "--cgroup-parent="+family)
	default:
		args = slices.Concat(args, limit, []string{"--cgroup-parent=" + e.containers})
	}
	id := e.does(method, append(args, ledgerImage, "sh", "-c", script)...)
	program, err := strconv.Atoi(e.does(method, "inspect", "--format", "{{.State.Pid}}", id))
	if err == nil {
		s.helper, err = e.helperOf(method, id, program)
	}
	if err != nil {
		e.Fatalf("%s: %v", name, err)
	}
	s.group = cpuGroup(e.T, program)
	switch method {
	case ledgertables.None:
		moveProcess(e.T, s.helper, e.group)
	case ledgertables.A:
		moveProcess(e.T, s.helper, s.group)
	case ledgertables.B:
		moveProcess(e.T, s.helper, family+"/helper")
	}
	s.payer = cpuGroup(e.T, s.helper)
	e.check(s, method)
	writeKernelFile(e.T, filepath.Join("/sys/fs/cgroup/cpu", s.parent, "cpu.shares"), "1024") // as the engine's group
	s.end = func() { e.end(s, method, id, family) }
	return s
}

// driverFlags returns the flags of run for a container that Candor places.
func (e *helperEngine) driverFlags() []string {
	return append([]string{"--annotation=candor.dev/helpers=place", "--annotation=candor.dev/class=flexible"}, e.place...)
}

// check fails the test if the groups are not those of the method.
func (e *helperEngine) check(s *ledgerSource, method ledgertables.Method) {
	e.Helper()
	isIncluded := method == ledgertables.A || method == ledgertables.Place
	if !strings.HasPrefix(s.group, s.parent+"/") || s.isIncluded() != isIncluded || (s.payer == e.group) != (method == ledgertables.None) {
		e.Fatalf("method %s: the container is in %s, its helper in %s", method, s.group, s.payer)
	}
}

// end removes a container. With the method A, a helper that is still in the container's group would prevent the removal of the group.
func (e *helperEngine) end(s *ledgerSource, method ledgertables.Method, id, family string) {
	e.Helper()
	if method == ledgertables.A {
		moveProcess(e.T, s.helper, e.group)
	}
	e.does(method, append(slices.Clone(e.remove), id)...)
	if method != ledgertables.Place {
		removeLedgerGroups(e.T, s.group)
		removeLedgerGroups(e.T, family)
	}
	if err := os.RemoveAll(s.log); err != nil {
		e.Fatal(err)
	}
}

// cpuGroup returns the cgroup of a process that the cpu controller uses. Without a hierarchy of cpu, that is the group of cgroup v2.
func cpuGroup(t *testing.T, pid int) (path string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), "cpu") {
			return fields[2]
		}
		if len(fields) == 3 && fields[0] == "0" {
			path = fields[2]
		}
	}
	return path
}

// missingPodman returns an error if a program for the columns of Podman is missing.
func missingPodman() error {
	for _, program := range []string{"podman", "conmon", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w; make test-deps installs it", err)
		}
	}
	return nil
}

func newPodmanEngine(t *testing.T) *helperEngine {
	t.Helper()
	e := newHelperEngine(t)
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	// Sockets have short paths, and the test's own folder may have a long one.
	dir, err := os.MkdirTemp("", "candor-podman-")
	if err != nil {
		t.Fatal(err)
	}
	e.helperDriver = helperDriver{
		command: func(method ledgertables.Method, args ...string) []string {
			runtime := runc
			if method == ledgertables.Place {
				runtime = e.runtime
			}
			return append([]string{"podman", "--root", dir + "/root", "--runroot", dir + "/run", "--tmpdir", dir + "/tmp", "--runtime", runtime,
				"--cgroup-manager", "cgroupfs", "--storage-driver", "vfs", "--events-backend", "none"}, args...)
		},
		flags: func(log string) []string {
			return []string{"--log-driver=k8s-file", "--log-opt=path=" + log, "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"}
		},
		remove: []string{"rm", "-f", "-t=0"},
		helperOf: func(method ledgertables.Method, id string, _ int) (int, error) {
			return strconv.Atoi(e.does(method, "inspect", "--format", "{{.State.ConmonPid}}", id))
		},
	}
	t.Cleanup(func() {
		for _, method := range []ledgertables.Method{ledgertables.Place, ledgertables.None} { // each knows the containers of its runtime
			_, _ = e.try(method, "rm", "-af", "-t=0")
		}
		(&lab{T: t, dir: dir}).unmount()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		exec.Command("sh", "-c", "find /sys/fs/cgroup/*/libpod_parent -depth -type d -exec rmdir {} \\;").Run() // the kernel refuses it for groups in use
	})
	image(t, dir+"/image.tar", ledgerImage, filepath.Join(testCache(), "busybox"), ledgerFiles(t))
	e.does(ledgertables.None, "load", "--input", dir+"/image.tar")
	return e
}

// missingNerdctl returns an error if nerdctl is missing.
func missingNerdctl() error {
	_, err := findNerdctl()
	return err
}

// findNerdctl returns the path of nerdctl: $CANDOR_NERDCTL, in the PATH, or in the directory of make test-engines.
func findNerdctl() (string, error) {
	if program := os.Getenv("CANDOR_NERDCTL"); program != "" {
		return exec.LookPath(program)
	}
	if program, err := exec.LookPath("nerdctl"); err == nil {
		return program, nil
	}
	cache := os.Getenv("CANDOR_ENGINES")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(base, "candor/engines")
	}
	program, err := exec.LookPath(filepath.Join(cache, "nerdctl"))
	if err != nil {
		return "", fmt.Errorf("no nerdctl in the PATH or in %s; make test-engines builds it", cache)
	}
	return program, nil
}

func newNerdctlEngine(t *testing.T, cpu int) *helperEngine {
	t.Helper()
	program, err := findNerdctl()
	if err != nil {
		t.Fatal(err)
	}
	e := newHelperEngine(t)
	l := newEngine(t)
	moveProcess(t, l.engine.Process.Pid, e.group)
	pinProcess(t, l.engine.Process.Pid, cpu)
	e.helperDriver = helperDriver{
		command: func(_ ledgertables.Method, args ...string) []string {
			return append([]string{program, "--address", l.path("containerd.sock"), "--namespace", "default", "--snapshotter", "native",
				"--cgroup-manager", "cgroupfs", "--data-root", l.path("nerdctl")}, args...)
		},
		flags:  func(log string) []string { return []string{"--log-driver=json-file", "--log-opt=log-path=" + log} },
		place:  []string{"--runtime=" + e.runtime},
		remove: []string{"rm", "-f"},
		helperOf: func(_ ledgertables.Method, _ string, program int) (int, error) {
			return loggerOf(program, "_NERDCTL_INTERNAL_LOGGING")
		},
	}
	t.Cleanup(func() { // before the end of containerd
		for n := range e.number {
			_, _ = e.try(ledgertables.None, "rm", "-f", fmt.Sprintf("c%d", n+1))
		}
	})
	image(t, l.path("image.tar"), ledgerImage, l.busybox, ledgerFiles(t))
	ctr := exec.Command(filepath.Join(l.bin, "ctr"), "--address", l.path("containerd.sock"), "--namespace", "default",
		"images", "import", "--local", "--snapshotter", "native", l.path("image.tar"))
	if out, err := ctr.CombinedOutput(); err != nil {
		t.Fatalf("ctr images import: %v\n%s", err, out)
	}
	return e
}

// loggerOf returns the logging binary of a container, given the container's first process: another child of the same shim, with a word in its
// command line.
func loggerOf(program int, word string) (int, error) {
	stat, err := procfs.ReadStat(program)
	if err != nil {
		return 0, err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		child, err := procfs.ReadStat(pid)
		if err != nil || child.Parent != stat.Parent {
			continue // it can have ended
		}
		if words, err := procfs.CommandLine(dir); err == nil && slices.Contains(words, word) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("the shim %d has no child with the word %s", stat.Parent, word)
}
