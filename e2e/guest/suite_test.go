package guest_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/e2e/guest/report"
)

// packages whose tests run in the guests too; those that are not there yet are left out.
var packages = []string{"topology", "view", "cgroup", "host", "internal/audit", "internal/setup", "e2e"}

// pure are the tests of text and trees alone: no kernel has a say in them, and emulated CPUs take 15 s.
const pure = "^(Fuzz|TestParse|TestTree|TestWriteTree|TestJSON)"

// TestGuest runs other packages' tests on the machine pack:2 numa:2 core:4 pu:2, on every kernel of the cache,
// on cgroup v2 and, where the kernel has its cpuset controller, on v1, and with systemd on the newest.
//
//	CANDOR_GUEST_PACKAGES="cgroup host"   only these
//	CANDOR_GUEST_RUN=TestBurst            only these tests
//
// As many guests at a time as this machine has CPUs, or go test's -parallel.
func TestGuest(t *testing.T) {
	needGuest(t)
	t.Parallel()
	built := build(t, chosen(t)...)
	all := kernels(t)
	var begun, tested atomic.Int32 // guests with cgroup v2, and those of them that the emulator let live
	t.Cleanup(func() {
		if begun.Load() > 0 && tested.Load() == 0 && !t.Failed() {
			t.Error("no guest with cgroup v2 was tested")
		}
	})
	v2 := func(t *testing.T, g guest.Guest) {
		t.Parallel()
		begun.Add(1)
		built.run(t, g)
		tested.Add(1)
	}
	for _, k := range all {
		t.Run("v2/"+k.Release, func(t *testing.T) { v2(t, guest.Guest{Kernel: k, Machine: guest.Big, Cgroup: 2}) })
		if k.CpusetsV1 {
			t.Run("v1/"+k.Release, func(t *testing.T) {
				t.Parallel()
				built.run(t, guest.Guest{Kernel: k, Machine: guest.Big, Cgroup: 1})
			})
		}
	}
	newest := all[len(all)-1]
	t.Run("systemd/"+newest.Release, func(t *testing.T) { v2(t, systemd(t, newest)) })
}

// systemd is a guest that boots the root that scripts/test-deps.sh has unpacked.
func systemd(t *testing.T, k guest.Kernel) guest.Guest {
	t.Helper()
	cache, err := guest.Cache()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(cache, "systemd")
	return guest.Guest{Kernel: k, Machine: guest.Big, Systemd: true, Files: map[string]string{"/": root}}
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

func chosen(t *testing.T) []string {
	t.Helper()
	if names := strings.Fields(os.Getenv("CANDOR_GUEST_PACKAGES")); len(names) > 0 {
		return names
	}
	var there []string
	for _, name := range packages {
		if tests, _ := filepath.Glob(filepath.Join(root, name, "*_test.go")); len(tests) > 0 {
			there = append(there, name)
		}
	}
	return there
}

// root is the module's directory, seen from this package.
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

// run boots g with the test binaries and relays what they say.
func (b binaries) run(t *testing.T, g guest.Guest) {
	g.Init = filepath.Join(b.dir, "init")
	g.Limit = 45 * time.Minute
	files := b.files(t)
	maps.Copy(files, g.Files)
	g.Files = files
	for _, p := range b.packages {
		name := filepath.Base(p)
		g.Commands = append(g.Commands, report.Command{
			Name: name,
			Args: []string{"/guest/" + name + "/" + name + ".test", "-test.v=test2json", "-test.timeout=15m", "-test.skip=" + pure, "-test.run=" + os.Getenv("CANDOR_GUEST_RUN")},
			// What a test can build or has on an ordinary machine, and not in here.
			Env:   []string{"CANDOR_IN_GUEST=1", "CANDOR_BIN=/usr/bin/candor"},
			Dir:   "/guest/" + name,
			Limit: 16 * time.Minute,
		})
	}
	start := time.Now()
	results, err := run(t, &g)
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) { relay(t, r) })
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %s: %.0f s with boot, %.0f s of CPU time", g.Kernel.Release, g.Machine, time.Since(start).Seconds(), g.CPUTime.Seconds())
}

// files are the test binaries and what they use.
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

// run boots a guest, and again where the emulator is at fault. Where it is so each time, there is
// nothing to be tested here.
func run(t *testing.T, g *guest.Guest) ([]report.Result, error) {
	results, err := g.Run(t.Context())
	for try := 1; errors.Is(err, guest.ErrEmulator); try++ {
		if try == 5 {
			t.Skipf("booted %d times, want QEMU 8.1 or newer: %v", try, err)
		}
		t.Logf("booted again: %v", err)
		results, err = g.Run(t.Context())
	}
	return results, err
}
