package guest_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/e2e/guest/report"
)

// A suite is the packages whose tests run in a guest.
type suite []tests

// tests are the tests of a package that match the pattern run and do not match the pattern skip. Empty patterns
// select all tests.
type tests struct{ dir, run, skip string }

var (
	// allTests runs with the newest kernel and cgroup v2.
	allTests = suite{{dir: "topology"}, {dir: "view"}, {dir: "cgroup"}, {dir: "host", skip: stateTests}, {dir: "cmd/candor/internal/audit"}, {dir: "cmd/candor/internal/setup"}, {dir: "e2e", skip: outputTests + "|" + longTests}, {dir: "e2e/hostile", run: foreignGroupTests}}
	// kernelTests are the packages that depend mostly on the kernel's interfaces. With another kernel or cgroup
	// version the other packages behave the same, and they take 15 minutes on emulated CPUs.
	kernelTests = suite{{dir: "view"}, {dir: "cgroup", skip: boundTests}}
	// guestOnlyTestsV1 is a test with exclusive groups of cgroup v1, which would take CPUs from other work on this
	// machine.
	guestOnlyTestsV1 = suite{{dir: "e2e/hostile", run: "^TestHostileExclusiveGroup$"}}
	// systemdTests run in a guest in which systemd creates the groups.
	systemdTests = suite{{dir: "cgroup", skip: boundTests}, {dir: "host", run: "^TestGiveBackSystemd$"}, {dir: "cmd/candor/internal/setup"}, {dir: "e2e", run: "^(TestRunWithSystemd|TestUnit|TestUnitsRights|TestViewUnit)$"}}
)

// foreignGroupTests are the attacks by groups of other programs, which differ between cgroup v1 and v2.
const foreignGroupTests = "^TestHostile(ParentQuota|FailedRuns|NamespaceRoot|ExclusiveGroup)$"

// outputTests are the tests of messages about bad input and of reports.
const outputTests = "^(TestBad|TestClassify|TestCompare|TestReport|TestTables)"

// longTests are tests of candor record, candor top, candor setup and the streams of candor run that behave the same with cgroup v1 and
// v2. Shorter tests of these commands run.
const longTests = "^(TestRunPassesThrough|TestSetupEngine|TestSetupHost|TestTopOnce|TestRecordEnds|TestRecordAllAgain|TestRecordKilled|TestRecordLimitOfParent)$"

// stateTests use Candor's state file, and not the kernel.
const stateTests = "^(TestOperationCache|TestBrokenState)$"

// boundTests create a thousand groups. They run with the newest kernel.
const boundTests = "^TestSubgroupsBound$"

// textTests are the tests of texts and trees alone. They do not depend on the kernel, and take 15 s on emulated CPUs.
const textTests = "^(Fuzz|TestParse|TestTree|TestWriteTree|TestJSON)"

// TestGuest runs the tests of other packages with each kernel of the cache. It uses cgroup v2, also cgroup v1 if the
// kernel has its cpuset controller, and systemd with the newest kernel. All tests run on a guest with 32 CPUs, and the
// tests that depend on the kernel on guests with 16 CPUs: each emulated CPU takes time.
//
// On a machine with cgroup v1, the guest with cgroup v1 runs only the tests that need a guest.
//
//	CANDOR_GUEST_PACKAGES="cgroup host"   only these packages, in each guest
//	CANDOR_GUEST_RUN=TestBurst            only these tests
//
// It runs as many guests at the same time as this machine has CPUs, or as go test's -parallel.
func TestGuest(t *testing.T) {
	needGuest(t)
	t.Parallel()
	built := build(t, allTests.packages(t)...)
	all := kernels(t)
	newest := all[len(all)-1]
	var started, tested atomic.Int32 // guests with cgroup v2 that started, and those that completed
	t.Cleanup(func() {
		if started.Load() > 0 && tested.Load() == 0 && !t.Failed() {
			t.Error("no guest with cgroup v2 was tested")
		}
	})
	v2 := func(t *testing.T, g guest.Guest, s suite) {
		t.Parallel()
		started.Add(1)
		built.run(t, g, s)
		tested.Add(1)
	}
	for _, k := range slices.Backward(all) { // the newest kernel first: it takes longest
		s, machine := kernelTests, guest.Medium
		if k == newest {
			s, machine = allTests, guest.Big
		}
		t.Run("v2/"+k.Release, func(t *testing.T) { v2(t, guest.Guest{Kernel: k, Machine: machine, Cgroup: 2}, s) })
		if k.CpusetsV1 {
			t.Run("v1/"+k.Release, func(t *testing.T) {
				t.Parallel()
				s := guestOnlyTestsV1
				if !hasV1() {
					s = append(slices.Clip(kernelTests), s...)
				}
				built.run(t, guest.Guest{Kernel: k, Machine: guest.Medium, Cgroup: 1}, s)
			})
		}
	}
	t.Run("systemd/"+newest.Release, func(t *testing.T) { v2(t, systemd(t, newest), systemdTests) })
}

// hasV1 reports whether this machine has the cpuset controller of cgroup v1. If so, make test runs
// kernelTests with cgroup v1 without a guest.
func hasV1() bool {
	_, err := os.Stat("/sys/fs/cgroup/cpuset/cpuset.cpus")
	return err == nil
}

// systemd returns a guest that boots the root file system that scripts/test-deps.sh unpacks.
func systemd(t *testing.T, k guest.Kernel) guest.Guest {
	t.Helper()
	cache, err := guest.Cache()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(cache, "systemd")
	return guest.Guest{Kernel: k, Machine: guest.Medium, Systemd: true, Files: map[string]string{"/": root}}
}

func needGuest(t *testing.T) {
	t.Helper()
	if os.Getenv("CANDOR_GUEST") == "" {
		t.Skip("boots virtual machines: make test-guest, or CANDOR_GUEST=1")
	}
	if _, err := exec.LookPath(guest.QEMU); err != nil {
		t.Fatalf("%v: run scripts/test-deps.sh", err)
	}
}

func kernels(t *testing.T) []guest.Kernel {
	t.Helper()
	all, err := guest.Kernels()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// chosen returns the packages in CANDOR_GUEST_PACKAGES, by default the suite.
func (s suite) chosen() suite {
	names := strings.Fields(os.Getenv("CANDOR_GUEST_PACKAGES"))
	if len(names) == 0 {
		return s
	}
	s = nil
	for _, name := range names {
		s = append(s, tests{dir: name})
	}
	return s
}

// packages returns the directories of the suite's packages.
func (s suite) packages(t *testing.T) (dirs []string) {
	t.Helper()
	for _, tests := range s.chosen() {
		if files, _ := filepath.Glob(filepath.Join(root, tests.dir, "*_test.go")); len(files) == 0 {
			t.Fatalf("%s has no tests", tests.dir)
		}
		dirs = append(dirs, tests.dir)
	}
	return dirs
}

// root is the module's directory, relative to this package.
const root = "../.."

// binaries are static programs in a directory: init, candor, and PACKAGE.test.
type binaries struct {
	dir      string
	packages []string
}

func build(t *testing.T, packages ...string) binaries {
	t.Helper()
	dir := t.TempDir()
	goTool(t, "build", "-o", dir+"/", "./e2e/guest/init")
	if len(packages) > 0 {
		goTool(t, "build", "-o", dir+"/", "./cmd/candor")
		args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", dir + "/"}
		for _, p := range packages {
			args = append(args, "./"+p)
		}
		goTool(t, args...)
	}
	return binaries{dir, packages}
}

func goTool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// run boots g with the test binaries and relays the output of a suite.
func (b binaries) run(t *testing.T, g guest.Guest, s suite) {
	g.Init = filepath.Join(b.dir, "init")
	g.Limit = 45 * time.Minute
	files := b.files(t)
	maps.Copy(files, g.Files)
	g.Files = files
	var named []bool // by command: the suite selects its tests by name, so none of them may be skipped
	for _, tests := range s.chosen() {
		if !slices.Contains(b.packages, tests.dir) {
			continue
		}
		name := filepath.Base(tests.dir)
		only, ok := matches(selected(t), name)
		if !ok {
			continue
		}
		named = append(named, tests.run != "")
		g.Commands = append(g.Commands, report.Command{
			Name: name,
			Args: append([]string{"/guest/" + name + "/" + name + ".test", "-test.v=test2json", "-test.timeout=25m"}, tests.flags(only)...),
			// The tests need this information in the guest; on other machines they detect or build it.
			Env:   []string{"CANDOR_IN_GUEST=1", "CANDOR_BIN=/usr/bin/candor"},
			Dir:   "/guest/" + name,
			Limit: 26 * time.Minute,
		})
	}
	if len(g.Commands) == 0 {
		t.Skip("-run selects no package of this guest")
	}
	start := time.Now()
	for i, r := range run(t, &g) {
		t.Run(r.Name, func(t *testing.T) {
			relay(t, r)
			if named[i] && bytes.Contains(r.Output, []byte("--- SKIP")) {
				t.Error("the guest is not what the tests need that were named for it")
			}
		})
	}
	t.Logf("%s, %s: %.0f s with boot, %.0f s of CPU time", g.Kernel.Release, g.Machine, time.Since(start).Seconds(), g.CPUTime.Seconds())
}

// flags returns the flags that select the tests. If only is not empty, it replaces the tests of the suite.
func (t tests) flags(only string) []string {
	run, skip := t.run, textTests
	if only != "" {
		run = only
	}
	if pattern := os.Getenv("CANDOR_GUEST_RUN"); pattern != "" {
		run = pattern
	}
	if t.skip != "" {
		skip += "|" + t.skip
	}
	return []string{"-test.run=" + run, "-test.skip=" + skip}
}

// files returns the test binaries and the files that they need, by their path in the guest.
func (b binaries) files(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	add := func(to, from string) {
		if _, err := os.Stat(from); err == nil {
			files[to] = from
		}
	}
	add("/usr/bin/candor", filepath.Join(b.dir, "candor"))
	cache, err := guest.Cache()
	if err != nil {
		t.Fatal(err)
	}
	add("/bin/busybox", filepath.Join(cache, "busybox"))
	for _, p := range b.packages {
		name := filepath.Base(p)
		files[fmt.Sprintf("/guest/%s/%s.test", name, name)] = filepath.Join(b.dir, name+".test")
		add("/guest/"+name+"/testdata", filepath.Join(root, p, "testdata"))
	}
	return files
}

// run boots a guest. If the emulator fails, run boots it again, and skips the test after 5 attempts. If the
// guest ends early, run logs the results so far and fails t, because the other commands did not run.
func run(t *testing.T, g *guest.Guest) []report.Result {
	t.Helper()
	results, err := g.Run(t.Context())
	for try := 1; errors.Is(err, guest.ErrEmulator); try++ {
		if try == 5 {
			t.Skipf("booted %d times; QEMU 8.1 or newer is required: %v", try, err)
		}
		t.Logf("booted again: %v", err)
		results, err = g.Run(t.Context())
	}
	if err == nil {
		return results
	}
	for _, r := range results {
		if r.Code != 0 {
			t.Logf("%s: code %d %s\n%s", r.Name, r.Code, r.Error, r.Output)
		}
	}
	t.Fatal(err)
	return nil
}
