package guest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/e2e/guest/report"
)

func sh(script string) report.Command {
	return report.Command{Name: "sh", Args: []string{"/bin/busybox", "sh", "-c", script}}
}

func boot(t *testing.T, m guest.Machine, version int, commands ...report.Command) ([]report.Result, error) {
	t.Helper()
	b := build(t)
	g := guest.Guest{Kernel: kernels(t)[0], Machine: m, Cgroup: version, Init: filepath.Join(b.dir, "init"), Files: b.files(t), Commands: commands}
	return g.Run(t.Context())
}

func TestMachine(t *testing.T) {
	needGuest(t)
	t.Parallel()
	results, err := boot(t, guest.Big, 2, sh(`
		cd /sys/devices/system
		cat cpu/online cpu/cpu9/topology/thread_siblings_list cpu/cpu9/topology/physical_package_id cpu/cpu9/cache/index3/shared_cpu_list node/node1/cpulist node/node3/distance
		grep -ow cpuset /sys/fs/cgroup/cgroup.subtree_control`))
	if err != nil {
		t.Fatal(err)
	}
	want := "0-31\n8-9\n0\n8-15\n8-15\n21 21 12 10\ncpuset\n"
	if got := string(results[0].Output); got != want {
		t.Errorf("the guest is %q, want %q", got, want)
	}
}

// TestMemorylessNode: on a NUMA node without memory, a container gets the memory of the nearest node.
func TestMemorylessNode(t *testing.T) {
	needGuest(t)
	t.Parallel()
	all := kernels(t)
	b := build(t, "cpuset") // and candor
	g := guest.Guest{Kernel: all[len(all)-1], Machine: guest.Machine{Sockets: 1, Nodes: 2, Cores: 2, Threads: 1, Memoryless: 1}, Cgroup: 2, Limit: 5 * time.Minute,
		Init: filepath.Join(b.dir, "init"), Files: b.files(t), Commands: []report.Command{sh(`
		cat /sys/devices/system/node/has_memory
		candor topology | grep memory
		cd /tmp; mkfifo started end
		show='grep -E "^(Cpus|Mems)_allowed_list" /proc/self/status'
		candor run --cpu 2 --topology single-numa --mems --name full -- sh -c "$show; : > started; cat end" &
		cat started
		candor run --cpu 2 --topology single-numa --mems --name bare -- sh -c "$show"
		echo "code $?"; : > end; wait`)}}
	results, err := g.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := "0\nNUMA node 1 has no memory; node 0 is the nearest with memory\n" +
		"Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t0\ncode 0\n"
	if got := string(results[0].Output); got != want {
		t.Errorf("the guest prints\n%swant\n%s", got, want)
	}
}

func TestResults(t *testing.T) {
	needGuest(t)
	t.Parallel()
	late := sh("sleep 1000")
	late.Limit = 500 * time.Millisecond
	results, err := boot(t, guest.Small, 1,
		sh("printf 'no newline'; exit 7"),
		sh("kill -9 $$"),
		report.Command{Name: "missing", Args: []string{"/no/such/program"}},
		late,
		sh("mkdir /sys/fs/cgroup/cpuset/left; sleep 1000 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do sleep 0.1; done"),
		sh("(sleep 0.1 &) ; sleep 0.5; cat /proc/cgroups | grep -c cpuset"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		code                    int
		output, error, leftover string
	}{
		{7, "no newline\n", "", ""},
		{137, "", "", ""},
		{127, "", "no such file", ""},
		{137, "", "killed after 500ms", ""},
		{0, "", "", "group /sys/fs/cgroup/cpuset/left"},
		{0, "1\n", "", ""},
	} {
		r := results[i]
		if r.Code != want.code || string(r.Output) != want.output || !strings.Contains(r.Error, want.error) || (want.error == "") != (r.Error == "") {
			t.Errorf("command %d: code %d, output %q, error %q; want %+v", i, r.Code, r.Output, r.Error, want)
		}
		if want.leftover == "" && len(r.Leftovers) > 0 || want.leftover != "" && !slices.Contains(r.Leftovers, want.leftover) {
			t.Errorf("command %d: left behind %q, want %q", i, r.Leftovers, want.leftover)
		}
	}
	if left := strings.Join(results[4].Leftovers, "\n"); !strings.Contains(left, "sleep 1000") {
		t.Errorf("left behind %q, want a process too", left)
	}
}

func TestGuestThatPanics(t *testing.T) {
	needGuest(t)
	t.Parallel()
	results, err := boot(t, guest.Small, 2, sh("echo before"), sh("echo c >/proc/sysrq-trigger"))
	if !errors.Is(err, report.ErrEarly) || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("error %v, want the console with the panic", err)
	}
	if len(results) != 1 || string(results[0].Output) != "before\n" {
		t.Errorf("results %+v, want those until then", results)
	}
}

func TestGuestThatHangs(t *testing.T) {
	needGuest(t)
	t.Parallel()
	b := build(t)
	g := guest.Guest{Kernel: kernels(t)[0], Machine: guest.Small, Cgroup: 2, Init: filepath.Join(b.dir, "init"), Files: b.files(t),
		Commands: []report.Command{sh("echo hangs; sleep 1000")}}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("seen enough")
	g.Output = writerFunc(func(p []byte) { cancel(reason) })
	if _, err := g.Run(ctx); !errors.Is(err, reason) || !errors.Is(err, report.ErrEarly) {
		t.Errorf("error %v, want that it was stopped from here", err)
	}
}

// TestCounted: a guest whose clock counts instructions measures a loop of instructions the same in each run, and idle time passes at once.
func TestCounted(t *testing.T) {
	needGuest(t)
	t.Parallel()
	b := build(t)
	loop := report.Command{Name: "loop", Args: []string{"/bin/busybox", "dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=20000"}}
	idle := sh("sleep 600")
	idle.Limit = 20 * time.Minute
	g := guest.Guest{Kernel: kernels(t)[0], Machine: guest.Machine{Sockets: 1, Nodes: 1, Cores: 1, Threads: 1}, Cgroup: 2, Counted: true,
		Init: filepath.Join(b.dir, "init"), Files: b.files(t), Commands: []report.Command{loop, loop, loop, idle}, Limit: 5 * time.Minute}
	results, err := g.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Code != 0 {
			t.Errorf("%s: code %d\n%s", r.Name, r.Code, r.Output)
		}
	}
	if a, b := results[1].Wall, results[2].Wall; a < 10*time.Millisecond || max(a, b)-min(a, b) > a/10 {
		t.Errorf("the same instructions took %s and %s", a, b)
	}
	if idle := results[3].Wall; idle < 600*time.Second || idle > 602*time.Second {
		t.Errorf("600 s took %s", idle)
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// TestKilledTestLeavesNoGuest kills a test of this binary while its guest runs.
func TestKilledTestLeavesNoGuest(t *testing.T) {
	needGuest(t)
	t.Parallel()
	victim := exec.Command("/proc/self/exe", "-test.run=^TestVictim$", "-test.v")
	victim.Env = append(os.Environ(), "CANDOR_GUEST_VICTIM=1", "TMPDIR="+t.TempDir()) // the killed test cannot clean up
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "runs" {
	}
	pidfd := emulatorOf(t, victim.Process.Pid)
	victim.Process.Kill()
	victim.Wait()
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 60_000); n != 1 || err != nil {
		t.Errorf("the emulator outlives its test (%v)", err)
		unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	}
}

// TestVictim boots a guest that never ends.
func TestVictim(t *testing.T) {
	if os.Getenv("CANDOR_GUEST_VICTIM") == "" {
		t.Skip("is killed by TestKilledTestLeavesNoGuest")
	}
	b := build(t)
	g := guest.Guest{Kernel: kernels(t)[0], Machine: guest.Small, Cgroup: 2, Init: filepath.Join(b.dir, "init"), Files: b.files(t),
		Commands: []report.Command{sh("echo runs; sleep 1000")}, Output: os.Stdout}
	g.Run(t.Context())
}

// emulatorOf returns a pidfd of the QEMU process that is a child of parent.
func emulatorOf(t *testing.T, parent int) int {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, _ := os.ReadFile(file)
		var pid, ppid int
		var name, state string
		if n, _ := fmt.Sscanf(string(stat), "%d %s %s %d", &pid, &name, &state, &ppid); n != 4 || ppid != parent || !strings.HasPrefix(name, "(qemu") {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	t.Fatalf("no emulator runs below process %d", parent)
	return -1
}
