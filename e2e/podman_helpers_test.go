package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startPlaced starts a container with half a CPU, whose conmon is placed in its cgroup. It returns the container's ID and conmon.
func (p *podman) startPlaced(program ...string) (id string, conmon int) {
	p.Helper()
	memory, err := os.MkdirTemp("/dev/shm", "candor-podman-") // conmon waits for a disk at each rotation of the log
	if err != nil {
		p.Skip(err)
	}
	p.Cleanup(func() { os.RemoveAll(memory) })
	args := append([]string{"-d", "--annotation", "candor.dev/helpers=place", "--annotation", "candor.dev/class=flexible",
		"--log-driver=k8s-file", "--log-opt=max-size=1mb", "--log-opt=path=" + memory + "/log", "box"}, program...)
	id = p.does(boxOf(args...)...)
	conmon, err = strconv.Atoi(p.does("inspect", "-f", "{{.State.ConmonPid}}", id))
	if err != nil {
		p.Fatal(err)
	}
	if got, want := p.payer(conmon), p.parent+"/"+id[:12]+"/candor-helper"; got != want {
		p.Fatalf("conmon is in %s, want %s", got, want)
	}
	return id, conmon
}

// payer returns the cgroup of a process in the hierarchy of the cpu controller.
func (p *podman) payer(pid int) string {
	p.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		p.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, path, ok := strings.Cut(strings.TrimSpace(line), ":cpu:"); ok {
			return path
		}
		if _, path, ok := strings.Cut(strings.TrimSpace(line), ":cpu,cpuacct:"); ok {
			return path
		}
	}
	p.Skip("needs cgroup v1")
	return ""
}

// kill sends a signal to a process.
func (p *podman) kill(pid int, sig syscall.Signal) {
	p.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		p.Fatal(err)
	}
}

// noGroups fails the test if a cgroup of the container exists in any hierarchy.
func (p *podman) noGroups(id string) {
	p.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/*" + p.parent + "/" + id[:12], "/sys/fs/cgroup/*/libpod_parent/libpod*" + id} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			p.Errorf("cgroups remain: %v %v", left, err)
		}
	}
}

// TestPodmanPlacedHelper: a container whose output makes conmon work uses its limit together with conmon. The resize and the
// commands of Candor still see the container's processes alone.
func TestPodmanPlacedHelper(t *testing.T) {
	p := newPodman(t)
	id, conmon := p.startPlaced("busybox", "yes")
	defer p.podman("rm", "-f", "-t=0", id)
	p.outweighOthers()
	// use returns the CPU use of the container with conmon, and of conmon alone.
	use := func(during time.Duration) (both, helper float64) {
		t.Helper()
		at, before, own := time.Now(), p.usage(id), helperTime(t, conmon)
		time.Sleep(during)
		seconds := time.Since(at).Seconds()
		return (p.usage(id) - before).Seconds() / seconds, (helperTime(t, conmon) - own).Seconds() / seconds
	}
	p.reaches(0.5, func() (both, helper float64) { return use(5 * time.Second) })
	p.ok("resize", id[:12], "--cpu", "0.2")
	p.reaches(0.2, func() (both, helper float64) { return use(5 * time.Second) })
	r := p.ps()[id[:12]]
	if len(r.PIDs) != 1 || r.PIDs[0] == conmon || r.State != "running" {
		t.Errorf("%+v, conmon %d", r, conmon)
	}
	for _, u := range p.ledger(time.Second).Containers {
		if u.ID == id && u.OwnCPUs > 0.1 {
			t.Errorf("the ledger books conmon's time as the container's own: %+v", u)
		}
	}
	p.does("rm", "-f", "-t=0", id)
	p.empty()
	p.noGroups(id)
}

// reaches fails the test unless a container and its conmon use the limit within 10 %, conmon most of it. On a busy machine they can use
// less, so a measurement below the limit is repeated.
func (p *podman) reaches(limit float64, use func() (both, helper float64)) {
	p.Helper()
	for range 3 {
		both, helper := use()
		p.Logf("limit %.1f: container and conmon use %.3f CPUs, conmon %.3f", limit, both, helper)
		if both > 1.1*limit || helper < both/2 {
			p.Fatalf("container and conmon use %.3f CPUs, want %.1f; conmon uses %.3f, want most of it", both, limit, helper)
		}
		if both > 0.9*limit {
			return
		}
	}
	p.Errorf("container and conmon do not reach the limit of %.1f CPUs", limit)
}

// TestPodmanPlacedHelperWholeLimit: a container with a whole exclusive CPU has no quota, but with a placed conmon it has one, also after the
// state was lost.
func TestPodmanPlacedHelperWholeLimit(t *testing.T) {
	p := newPodman(t)
	p.need(2)
	for level, want := range map[string]float64{"show": 0, "place": 0.1} {
		id := p.does(boxOf("-d", "--cpus=1", "--annotation", "candor.dev/helpers="+level, "box", "sleep", "9999")...)
		for _, lost := range []bool{false, true} {
			if lost {
				if err := os.Remove(filepath.Join(p.state, "state.json")); err != nil {
					t.Fatal(err)
				}
				p.nudge()
			}
			if r := p.inspect(id[:12]); r.Group.QuotaSeconds != want || r.Exclusive.Count() != 1 {
				t.Errorf("%s, state lost %t: quota %v s, want %v: %+v", level, lost, r.Group.QuotaSeconds, want, r)
			}
		}
		p.does("rm", "-f", "-t=0", id)
		p.empty()
		p.noGroups(id)
	}
}

// usage returns the CPU time of the container's cgroup.
func (p *podman) usage(id string) time.Duration {
	p.Helper()
	stat, err := p.tree.Group(id[:12]).Stat()
	if err != nil {
		p.Fatal(err)
	}
	return stat.CPU
}

// helperTime returns the CPU time of a process with one thread.
func helperTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n)
}

// TestPodmanPlacedHelperLogs: the log of a container with a placed conmon is complete, also after a restart.
func TestPodmanPlacedHelperLogs(t *testing.T) {
	p := newPodman(t)
	const lines = 20000
	args := []string{"--annotation", "candor.dev/helpers=place", "--annotation", "candor.dev/class=flexible", "--log-driver=k8s-file",
		"box", "sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); done", lines)}
	id := p.does(boxOf(append([]string{"-d"}, args...)...)...)
	defer p.podman("rm", "-f", "-t=0", id)
	p.does("wait", id)
	p.does("start", id)
	p.does("wait", id)
	got := strings.Split(p.does("logs", id), "\n")
	if len(got) != 2*lines {
		t.Fatalf("%d lines, want %d", len(got), 2*lines)
	}
	for i, line := range got {
		if want := fmt.Sprint("line ", i%lines); line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}
	p.does("rm", id)
	p.empty()
	p.noGroups(id)
}

// TestPodmanPlacedHelperKilled: no cgroup remains if the program, conmon or the container is killed, and a helper that outlives
// its container does not hold its CPUs.
func TestPodmanPlacedHelperKilled(t *testing.T) {
	p := newPodman(t)
	for name, kill := range map[string]func(id string, conmon int){
		"program": func(id string, _ int) {
			p.kill(p.ps()[id[:12]].PIDs[0], syscall.SIGKILL)
			p.does("wait", id)
		},
		"conmon": func(_ string, conmon int) {
			p.kill(conmon, syscall.SIGKILL)
			gone(t, conmon)
		},
		"program while conmon is stopped": func(id string, conmon int) {
			p.kill(conmon, syscall.SIGSTOP) // conmon outlives the program
			pid := p.ps()[id[:12]].PIDs[0]
			p.kill(pid, syscall.SIGKILL)
			gone(t, pid)
			p.nudge()
			p.empty()
			p.noGroups(id)
			if got := p.payer(conmon); strings.HasPrefix(got, p.parent) {
				t.Errorf("conmon remains in %s", got)
			}
			p.kill(conmon, syscall.SIGKILL)
			gone(t, conmon)
		},
		"nothing": func(string, int) {},
	} {
		t.Run(name, func(*testing.T) {
			id, conmon := p.startPlaced("sleep", "9999")
			kill(id, conmon)
			p.podman("rm", "-f", "-t=0", id) // Podman refuses it once if both processes were killed
			p.nudge()
			p.empty()
			p.noGroups(id)
		})
	}
}
