package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeLines is a shell program that writes lines for ever, some thousand in a second.
const writeLines = `while :; do i=0; while [ $i -lt 40 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done; busybox usleep 10000; done`

// A helperUse is the CPU use of helpers in candor ledger show -o json.
type helperUse struct {
	Helper, Method string
	CPUs           float64 `json:"useMilli"`
}

// A ledgerReport has the fields of candor ledger show -o json that the tests use.
type ledgerReport struct {
	Method     string
	Containers []ledgerContainer
}

type ledgerContainer struct {
	Name, ID string
	OwnCPUs  float64 `json:"ownMilli"`
	Helpers  []helperUse
}

func (l *lab) ledger(during time.Duration) (r ledgerReport) {
	l.Helper()
	if err := json.Unmarshal([]byte(l.ok("ledger", "show", "-o", "json", "--during", during.String())), &r); err != nil {
		l.Fatal(err)
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		c.OwnCPUs /= 1000
		for k := range c.Helpers {
			c.Helpers[k].CPUs /= 1000
		}
	}
	return r
}

// use returns the CPU use of a kind of helper work for a container.
func (r *ledgerReport) use(name, kind string) (u helperUse) {
	for _, c := range r.Containers {
		if c.Name != name {
			continue
		}
		if i := slices.IndexFunc(c.Helpers, func(u helperUse) bool { return u.Helper == kind }); i >= 0 {
			return c.Helpers[i]
		}
	}
	return u
}

// TestLedgerOfDocker: dockerd is divided among containers by samples, and the shim of a container is its own.
// A reader of the log is shown and not charged. top, inspect and audit show the helpers of a container that
// Candor runs.
func TestLedgerOfDocker(t *testing.T) {
	d := newDocker(t)
	run := func(name string, args ...string) {
		d.does(append([]string{"run", "-d", "--name", name, "--network", "none", "--cgroup-parent", d.parent + "-docker"}, args...)...)
	}
	run("writer", "box", "sh", "-c", writeLines)
	run("idle", "box", "sleep", "1000")
	d.does("run", "-d", "--name", "candid", "--network", "none", "--runtime", "candor", "--cpus", "0.2", "box", "sh", "-c", writeLines) // its shim alone uses more than 5 % of the limit
	r := d.ledger(4 * time.Second)
	if r.Method != "bpf" {
		t.Skipf("this kernel refuses BPF: %+v", r)
	}
	log, shim := r.use("writer", "log"), r.use("writer", "shim")
	if log.Method != "bpf" || log.CPUs < 0.005 || shim.Method != "exact" || shim.CPUs < 0.001 {
		t.Errorf("writer: log %+v, shim %+v\n%+v", log, shim, r)
	}
	if idle := r.use("idle", "log"); idle.CPUs > log.CPUs/10 {
		t.Errorf("idle: log %+v, writer %+v", idle, log)
	}
	id := d.does("inspect", "-f", "{{.Id}}", "candid")
	i := slices.IndexFunc(r.Containers, func(c ledgerContainer) bool { return c.ID == id })
	if i < 0 || len(r.Containers[i].Helpers) < 2 {
		t.Errorf("candid: no helpers in %+v", r)
	}
	d.logReader(&r)
	d.shownElsewhere(id)
}

// logReader starts a reader of the writer's log and compares.
func (d *docker) logReader(before *ledgerReport) {
	d.Helper()
	reader := d.docker("logs", "-f", "--tail", "0", "writer")
	if err := reader.Start(); err != nil {
		d.Fatal(err)
	}
	defer reader.Wait()
	defer reader.Process.Kill()
	var read helperUse
	for end := time.Now().Add(time.Minute); read.CPUs < 0.001 && time.Now().Before(end); {
		r := d.ledger(2 * time.Second)
		read = r.use("writer", "read")
	}
	if read.CPUs < 0.001 || read.CPUs <= before.use("writer", "read").CPUs {
		d.Errorf("with a reader of the log: %+v, before %+v", read, before.use("writer", "read"))
	}
}

// shownElsewhere checks the other commands for a container of Candor that writes.
func (d *docker) shownElsewhere(id string) {
	d.Helper()
	var top struct {
		Containers []struct {
			ID      string
			Helpers *int `json:"helpersMilli"`
		}
	}
	if err := json.Unmarshal([]byte(d.ok("top", "--once", "--interval", "2s", "-o", "json")), &top); err != nil {
		d.Fatal(err)
	}
	if len(top.Containers) != 1 || top.Containers[0].Helpers == nil || *top.Containers[0].Helpers == 0 {
		d.Errorf("top: %+v", top)
	}
	if text := d.ok("top", "--once", "--interval", "2s"); !strings.Contains(text, "HELP") {
		d.Errorf("top has no column HELP:\n%s", text)
	}
	text := d.ok("inspect", id[:12], "--during", "2s")
	for _, want := range []string{"dockerd, process ", "containerd-shim", "helpers use"} {
		if !strings.Contains(text, want) {
			d.Errorf("inspect lacks %q:\n%s", want, text)
		}
	}
	if text := d.ok("audit", "--helpers", "2s"); !strings.Contains(text, "Helpers use more than 5 %") || !strings.Contains(text, "candor: write fewer lines") {
		d.Errorf("audit has no busy helpers:\n%s", text)
	}
	if text := d.ok("audit", "--helpers", "0"); strings.Contains(text, "Helpers use") {
		d.Errorf("audit --helpers 0 measures helpers:\n%s", text)
	}
}

// TestLedgerOfPodman: conmon serves a single container, so its CPU time is exact, and that of its start is included.
func TestLedgerOfPodman(t *testing.T) {
	p := newPodman(t)
	id := p.does(boxOf("-d", "--name", "writer", "box", "sh", "-c", writeLines)...)
	defer p.podman("rm", "-f", "-t=0", id)
	r := p.ledger(2 * time.Second)
	for _, c := range r.Containers {
		if c.ID == id && len(c.Helpers) == 1 && c.Helpers[0].Helper == "log" && c.Helpers[0].Method == "exact" && c.Helpers[0].CPUs > 0.001 {
			return
		}
	}
	t.Errorf("no exact helper of %s in %+v", id, r)
}

// TestLedgerRefusals: bad input, and users other than root, get one line and exit code 2.
func TestLedgerRefusals(t *testing.T) {
	l := newLab(t)
	for want, args := range map[string][]string{
		"--during 1ms: must be 100ms to 1h":    {"show", "--during", "1ms"},
		"--interval 2h0m0s: must be 100ms":     {"watch", "--interval", "2h"},
		"-n -1: must be 0 or more":             {"watch", "-n", "-1"},
		"must be a port, such as 9464":         {"agent", "--metrics", "here"},
		"--interval 10ms: must be 100ms to 1m": {"agent", "--interval", "10ms"},
	} {
		got := do(t, l.candor(append([]string{"ledger"}, args...)...))
		if got.code != 2 || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 || got.out != "" {
			t.Errorf("%q: got %+v, want %q", args, got, want)
		}
	}
	user := exec.Command(l.candor().Path, "ledger", "show")
	user.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if got := do(t, user); got.code != 2 || !strings.Contains(got.err, "use sudo") {
		t.Errorf("another user: %+v", got)
	}
}
