package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDockerRestart: a restarted container has its former CPUs, after docker restart, after a kill and a
// start, and after a restart of the engine. The runtime gets an end and a new container each time.
func TestDockerRestart(t *testing.T) {
	d := newDocker(t)
	d.need(2)
	web := d.notFirst("web")
	d.comesBack(web, "restart", func() { d.does("restart", "web") })
	d.comesBack(web, "kill and start", func() { d.does("kill", "web"); d.does("start", "web") })
	d.comesBack(web, "restart of the engine", func() { d.down(); d.up() })
	d.check(web, 1000, 1)
	d.does("rm", "-f", "web")
	batch := d.notFirst("batch", "--cgroup-parent="+d.parent+"-batch")
	d.comesBack(batch, "restart in a group of the user's choice", func() { d.does("restart", "batch") })
	d.does("rm", "-f", "batch")
	d.empty()
	// Retained places do not block other containers: all CPUs are available at once.
	all := strconv.Itoa(d.usable.Count())
	if got := d.does("run", "--rm", "--network=none", "--runtime=candor", "--cpus="+all, "box", "nproc"); got != all {
		t.Errorf("all CPUs: nproc prints %s", got)
	}
	d.empty()
}

// notFirst starts a container on a CPU other than the CPU that a new container would get.
func (d *docker) notFirst(name string, flags ...string) (id string) {
	d.Helper()
	run := func(cpus int, flags ...string) string {
		flags = append(flags, "--network=none", "--runtime=candor", "--restart=always", "--stop-signal=KILL", fmt.Sprint("--cpus=", cpus), "box", "sleep", "9999")
		return d.does(append([]string{"run", "-d"}, flags...)...)[:12]
	}
	rest := run(d.usable.Count() - 1)
	id = run(1, append(flags, "--name="+name)...)
	d.does("rm", "-f", rest)
	return id
}

// comesBack restarts a container with an operation. It fails the test unless the new container has the same CPUs.
func (d *docker) comesBack(id, after string, do func()) {
	d.Helper()
	before := d.ps()[id]
	do()
	if now := d.runs(id); now.CPUs != before.CPUs || now.PID == before.PID {
		d.Errorf("%s: %+v became %+v", after, before, now)
	}
}

// runs waits until a container runs.
func (d *docker) runs(id string) row {
	d.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		r := d.ps()[id]
		if r.State == "running" && r.PID != 0 {
			if _, err := os.Stat("/proc/" + strconv.Itoa(r.PID)); err == nil {
				return r
			}
		}
		if time.Now().After(deadline) {
			d.Fatalf("%s does not run: %+v", id, r)
		}
	}
}

// TestDockerBurst: the burst buffer is never larger than the quota, for each update of the engine.
func TestDockerBurst(t *testing.T) {
	d := newDocker(t)
	d.allowImages("burst")
	id := d.does("run", "-d", "--network=none", "--runtime=candor", "--cpus=0.5", "-e", "CANDOR_BURST=20ms", "box", "sleep", "9999")[:12]
	for _, step := range []struct {
		cpus string
		want time.Duration
	}{{"0.5", 20 * time.Millisecond}, {"0.1", 10 * time.Millisecond}, {"0.7", 20 * time.Millisecond}, {"1", 0}, {"0.3", 20 * time.Millisecond}} {
		d.does("update", "--cpus="+step.cpus, id)
		has, err := d.tree.Group(id).Settings()
		if err != nil || has.Burst != step.want {
			t.Errorf("--cpus %s: burst %v (%v), want %v", step.cpus, has.Burst, err, step.want)
		}
	}
	d.does("rm", "-f", id)
	d.empty()
}

// TestDockerShares: a flexible container with many CPU shares does not starve a fraction beside it. With the
// requested shares, the container with 1.5 CPUs would get 1 CPU, and the flexible container the other.
func TestDockerShares(t *testing.T) {
	d := newDocker(t)
	d.need(2)
	busy := func(threads int) string { return strings.Repeat("while :; do :; done & ", threads) + "wait" }
	n := d.usable.Count()
	log := d.does("run", "-d", "--network=none", "--runtime=candor-flexible", "--cpu-shares=262144", "box", "sh", "-c", busy(2))[:12]
	web := d.does("run", "-d", "--network=none", "--runtime=candor", fmt.Sprintf("--cpus=%d.5", n-1), "box", "sh", "-c", busy(n))[:12]
	webBefore, logBefore := d.used(web), d.used(log)
	for deadline := time.Now().Add(time.Minute); d.used(web) < webBefore+2*time.Second; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to 2 s of CPU time in a minute")
		}
	}
	webUsed, logUsed := d.used(web)-webBefore, d.used(log)-logBefore
	webWeight, logWeight := d.weight(web), d.weight(log)
	if want := n * 500; webWeight < want-10 || webWeight > want+10 || logWeight > 20 {
		t.Errorf("weights %d and %d: want %d and 10", webWeight, logWeight, want)
	}
	t.Logf("web used %v, log %v; weights %d and %d", webUsed, logUsed, webWeight, logWeight)
	if logUsed > webUsed*6/10 {
		t.Errorf("web, limited to %d.5 CPUs, used %v, and log %v: a third was to be expected, all of it if the shares counted", n-1, webUsed, logUsed)
	}
	d.does("rm", "-f", web, log)
	d.empty()
}

// used returns the CPU time of a container.
func (d *docker) used(id string) time.Duration {
	d.Helper()
	stat, err := d.tree.Group(id).Stat()
	if err != nil {
		d.Fatal(err)
	}
	return stat.CPU
}

// weight returns the weight of a container in the kernel.
func (d *docker) weight(id string) int {
	d.Helper()
	has, err := d.tree.Group(id).Settings()
	if err != nil {
		d.Fatal(err)
	}
	return has.Weight
}
