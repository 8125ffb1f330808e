package containerd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/hybrid"
)

// Writers of different patterns: many writes of a line, few writes of many lines, few long lines.
const (
	manyWrites = `while :; do i=0; while [ $i -lt 60 ]; do echo 0123456789012345678901234567890123456789012345678901234567890123456789012345678; i=$((i+1)); done; usleep 5000; done`
	fewWrites  = `l=$(i=0; while [ $i -lt 50 ]; do echo 01234567890123456789012345678901234567890123456789; i=$((i+1)); done); while :; do echo "$l"; usleep 10000; done`
	longLines  = `l=$(i=0; while [ $i -lt 100 ]; do echo -n 01234567890123456789012345678901234567890123456789; i=$((i+1)); done); while :; do echo "$l"; usleep 2000; done`
)

// loggers starts a pod for each writer, with the kubelet's path of the log.
func (l *lab) loggers(writers map[string]string) map[string]*container {
	l.Helper()
	all := map[string]*container{}
	for name, script := range writers {
		p := must[*pod](l.T)(l.newPod(0, 0, nil))
		p.config.LogDirectory = filepath.Join(l.path("logs"), fmt.Sprintf("default_%s_%s", p.name, p.config.Metadata.Uid), name)
		if err := os.MkdirAll(p.config.LogDirectory, 0o755); err != nil {
			l.Fatal(err)
		}
		all[name] = must[*container](l.T)(p.run(name, 0, 0, false, "sh", "-c", script))
	}
	return all
}

// openFiles returns the FIFOs and logs of a container that containerd has open.
func (c *container) openFiles() (files []string) {
	c.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", c.engine.Process.Pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		c.Fatal(err)
	}
	for _, e := range entries {
		link, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err == nil && (strings.Contains(link, c.id) || strings.HasPrefix(link, c.config.LogDirectory)) && !slices.Contains(files, link) {
			files = append(files, link)
		}
	}
	return files
}

// A containerUsage is a container in the output of candor ledger show -o json.
type containerUsage struct {
	Name, ID string
	Helpers  []struct {
		Helper, Method string
		CPUs           float64 `json:"useMilli"`
	}
}

type ledgerReport struct {
	DuringSeconds    float64
	Method, Refusal  string
	Containers       []containerUsage
	UnattributedCPUs map[string]float64 `json:"unattributedMilli"`
}

func (l *lab) ledger(during time.Duration) (r ledgerReport) {
	l.Helper()
	return l.ledgerBy(nil, during)
}

// ledgerBy runs candor ledger show through a program that executes candor.
func (l *lab) ledgerBy(program []string, during time.Duration) (r ledgerReport) {
	l.Helper()
	words := slices.Concat(program, []string{l.candor, "ledger", "show", "-o", "json", "--during", during.String()})
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		l.Fatalf("candor ledger show: %v\n%s", err, out)
	}
	for _, c := range r.Containers {
		for k := range c.Helpers {
			c.Helpers[k].CPUs /= 1000
		}
	}
	for daemon := range r.UnattributedCPUs {
		r.UnattributedCPUs[daemon] /= 1000
	}
	return r
}

// use returns the CPU use of a kind of helper work for a container.
func (r *ledgerReport) use(c *container, kind string) (cpus float64, methods []string) {
	for _, h := range r.Containers {
		if h.ID != c.id {
			continue
		}
		for _, u := range h.Helpers {
			if u.Helper == kind {
				cpus += u.CPUs
				methods = append(methods, u.Method)
			}
		}
	}
	return cpus, methods
}

// TestLedgerOfPod: the shim of a pod with two containers is divided by their output. The container that
// writes pays for it.
func TestLedgerOfPod(t *testing.T) {
	l := newEngine(t)
	p := must[*pod](t)(l.newPod(0, 0, nil))
	busy := must[*container](t)(p.run("busy", 0, 0, false, "sh", "-c", manyWrites))
	idle := must[*container](t)(p.run("idle", 0, 0, false))
	var r ledgerReport
	var shim, log, none float64
	for end := time.Now().Add(time.Minute); (shim == 0 || log == 0) && time.Now().Before(end); {
		r = l.ledger(4 * time.Second)
		shim, _ = r.use(busy, "shim")
		log, _ = r.use(busy, "log")
		none, _ = r.use(idle, "shim")
	}
	if shim <= 0 || log <= 0 || none > shim/4 {
		t.Errorf("busy: shim %.4f CPUs, log %.4f; idle: shim %.4f: %+v", shim, log, none, r)
	}
}

// TestLedgerAgent: the metrics of the agent grow, and the sum of containerd's charges and unattributed time
// is the growth of its CPU time.
func TestLedgerAgent(t *testing.T) {
	l := newEngine(t)
	all := l.loggers(map[string]string{"many": manyWrites, "few": fewWrites})
	agent := l.start(l.candor, "ledger", "agent", "--metrics", "19465", "--interval", "200ms")
	defer agent.kill()
	read := func() (values map[string]float64) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); len(values) == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			values = metricsAt("http://127.0.0.1:19465/metrics")
		}
		return values
	}
	sum := func(values map[string]float64) (seconds float64) {
		for name, value := range values {
			if strings.HasPrefix(name, "candor_container_helper_cpu_seconds_total") && strings.Contains(name, `helper="log"`) || name == `candor_helper_unattributed_cpu_seconds_total{daemon="containerd"}` {
				seconds += value
			}
		}
		return seconds
	}
	metric := func(name string) string {
		return fmt.Sprintf(`candor_container_helper_cpu_seconds_total{container=%q,helper="log",method="bpf",namespace="default",pod=%q}`, name, all[name].pod.name)
	}
	for end := time.Now().Add(time.Minute); read()[metric("many")] == 0 || read()[metric("few")] == 0; {
		if time.Now().After(end) {
			t.Fatalf("no metrics of the containers: %v\n%s", read(), agent.output())
		}
	}
	before, used := read(), threadTime(t, l.engine.Process.Pid)
	time.Sleep(4 * time.Second)
	after, total := read(), (threadTime(t, l.engine.Process.Pid) - used).Seconds()
	if got := sum(after) - sum(before); got < 0.8*total || got > 1.2*total {
		t.Errorf("the metrics grew by %.3f s, containerd used %.3f s\n%s", got, total, agent.output())
	}
	for name := range all {
		if after[metric(name)] <= before[metric(name)] {
			t.Errorf("%s: %v, then %v", metric(name), before[metric(name)], after[metric(name)])
		}
	}
}

// TestLedgerBesideAPICalls: containerd's work for API calls is not charged to a container that logs.
func TestLedgerBesideAPICalls(t *testing.T) {
	l := newEngine(t)
	c := l.loggers(map[string]string{"many": manyWrites})["many"]
	alone := l.ledger(6 * time.Second)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan int)
	go func() {
		calls := 0
		for tick := time.NewTicker(50 * time.Millisecond); ; calls++ {
			select {
			case <-ctx.Done():
				tick.Stop()
				done <- calls
				return
			case <-tick.C:
				_, _ = l.cri.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.id, Verbose: true})
				_, _ = l.cri.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
			}
		}
	}()
	beside := l.ledger(6 * time.Second)
	stop()
	before, _ := alone.use(c, "log")
	after, _ := beside.use(c, "log")
	t.Logf("log: alone %.2f %%, beside %d pairs of calls %.2f %% of a CPU; unattributed %.2f %% and %.2f %%", 100*before, <-done, 100*after,
		100*alone.UnattributedCPUs["containerd"], 100*beside.UnattributedCPUs["containerd"])
	if before <= 0 || after <= 0 || after > before+0.05 {
		t.Errorf("log: alone %.4f CPUs, beside API calls %.4f", before, after)
	}
}

// TestLedgerRestarts: the agent follows a rotated log, a new containerd and a restarted container.
func TestLedgerRestarts(t *testing.T) {
	l := newEngine(t)
	c := l.loggers(map[string]string{"many": manyWrites})["many"]
	agent := l.start(l.candor, "ledger", "agent", "--metrics", "19467", "--interval", "200ms")
	defer agent.kill()
	metric := fmt.Sprintf(`candor_container_helper_cpu_seconds_total{container="many",helper="log",method="bpf",namespace="default",pod=%q}`, c.pod.name)
	// grows waits until the metric has grown by 50 ms of CPU time.
	grows := func(when string) {
		t.Helper()
		start := metricsAt("http://127.0.0.1:19467/metrics")[metric]
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			now := metricsAt("http://127.0.0.1:19467/metrics")[metric]
			if now < start {
				start = 0 // the container has left the book and is in it again
			}
			if now > start+0.05 {
				return
			}
		}
		t.Errorf("%s: the metric does not grow\n%s", when, agent.output())
	}
	grows("at the start")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	log := filepath.Join(c.config.LogDirectory, "many.log")
	err := os.Rename(log, log+".1")
	if err == nil {
		_, err = l.cri.ReopenContainerLog(ctx, &cri.ReopenContainerLogRequest{ContainerId: c.id})
	}
	if err != nil {
		t.Fatal(err)
	}
	grows("after the rotation of the log")
	l.engine.kill()
	l.startEngine()
	grows("after the restart of containerd")
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	must[*container](t)(c.run("many", 0, 0, false, "sh", "-c", manyWrites))
	grows("after the restart of the container")
}

// ledgerPod returns the pod of the chart's ledger agent, with a port of this machine and the directories of the lab. values names the
// rendered chart in deploy/helm/testdata.
func (l *lab) ledgerPod(values, port string) (spec podSpec) {
	l.Helper()
	text, err := os.ReadFile("../../deploy/helm/testdata/" + values + ".yaml")
	if err != nil {
		l.Fatal(err)
	}
	chart := strings.NewReplacer("0.0.0.0:9465", "127.0.0.1:"+port, "/run/candor", l.path("candor"), "/etc/candor", l.dir).Replace(string(text))
	for part := range strings.SplitSeq(chart, "\n---\n") {
		var w workload
		if err := yaml.Unmarshal([]byte(part), &w); err != nil {
			l.Fatal(err)
		}
		if w.Kind == "DaemonSet" && w.Metadata.Name == "candor-ledger" {
			return w.Spec.Template.Spec
		}
	}
	l.Fatal("the chart has no ledger agent")
	return spec
}

// startLedgerPod starts the chart's ledger agent in a pod with exactly its rights.
func (l *lab) startLedgerPod(values, port string) *container {
	l.Helper()
	l.importImage(candorImage, map[string]string{"/candor": l.candor})
	spec := l.ledgerPod(values, port)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p := l.podIn(ctx, nil, security(&spec).NamespaceOptions)
	r, err := l.cri.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "ledger"}, Image: &cri.ImageSpec{Image: candorImage},
			Command: []string{"/candor"}, Args: spec.Containers[0].Args, Mounts: l.mounts(&spec, ""), LogPath: "ledger.log",
			Envs:  []*cri.KeyValue{{Key: "CANDOR_CGROUP_PARENT", Value: []byte(l.parent + "-run")}},
			Linux: &cri.LinuxContainerConfig{Resources: resources(0, 100), SecurityContext: security(&spec)},
		}})
	if err == nil {
		_, err = l.cri.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: r.ContainerId})
	}
	if err != nil {
		l.Fatal(err)
	}
	return &container{pod: p, name: "ledger", id: r.ContainerId}
}

// TestLedgerInPod: the agent works in the pod of the chart, with exactly its rights, also for the log of a pod.
func TestLedgerInPod(t *testing.T) {
	l := newEngine(t)
	writer := l.loggers(map[string]string{"many": manyWrites})["many"]
	agent := l.startLedgerPod("ledger", "19468")
	metric := fmt.Sprintf(`candor_container_helper_cpu_seconds_total{container="many",helper="log",method="bpf",namespace="default",pod=%q}`, writer.pod.name)
	var got map[string]float64
	for end := time.Now().Add(30 * time.Second); got[metric] == 0 && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		got = metricsAt("http://127.0.0.1:19468/metrics")
	}
	if got[metric] == 0 {
		t.Errorf("no %s in %v\n%s", metric, got, agent.log())
	}
}

// metricsAt returns the metrics of a page by name and labels.
func metricsAt(url string) map[string]float64 {
	values := map[string]float64{}
	for line := range strings.Lines(page(url)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			values[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return values
}

// page returns the body of a page, or "".
func page(url string) string {
	r, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// TestLedgerCost measures the CPU use of candor ledger agent beside 50 containers, idle and with 10,000 lines
// per second; docs/benchmarks/ledger.md has the results. CANDOR_LEDGER_LEVEL=charge charges the containers, with
// the limit CANDOR_LEDGER_LIMIT:
//
//	CANDOR_LEDGER_COST=50 go test -run TestLedgerCost -v
func TestLedgerCost(t *testing.T) {
	containers, err := strconv.Atoi(os.Getenv("CANDOR_LEDGER_COST"))
	if err != nil {
		t.Skip("CANDOR_LEDGER_COST=CONTAINERS measures the agent on an idle machine")
	}
	limit := hybrid.Milli(30)
	if text := os.Getenv("CANDOR_LEDGER_LIMIT"); text != "" {
		if limit, err = hybrid.ParseMilli(text); err != nil {
			t.Fatal(err)
		}
	}
	// Each writer writes 20 lines ten times in a second, as soon as it gets a signal.
	const writer = `trap : USR1; sleep 100000 & wait $!; while :; do i=0; while [ $i -lt 20 ]; do echo 01234567890123456789012345678901234567890123456789012345678901234567890123456789; i=$((i+1)); done; usleep 90000; done`
	var l *lab
	var agent *daemon
	var all []*container
	if os.Getenv("CANDOR_LEDGER_LEVEL") == "charge" {
		l = newLab(t)
		agent = l.startCharging("19466")
		for i := range containers {
			all = append(all, l.chargedRequest(fmt.Sprintf("c%d", i), writer, "none", limit, 30))
		}
	} else {
		l = newEngine(t)
		writers := map[string]string{}
		for i := range containers {
			writers[fmt.Sprintf("c%d", i)] = writer
		}
		all = slices.Collect(maps.Values(l.loggers(writers)))
		agent = l.start(l.candor, "ledger", "agent", "--metrics", "19466")
		defer agent.kill()
	}
	measure := func(name string) {
		time.Sleep(12 * time.Second) // the start of the containers, or of their programs, is over
		pid, engine := agent.Process.Pid, l.engine.Process.Pid
		for range 3 {
			used, engineUsed, start := threadTime(t, pid), threadTime(t, engine), time.Now()
			time.Sleep(20 * time.Second)
			took := time.Since(start)
			t.Logf("%s: agent %.3f %%, containerd %.1f %% of a CPU", name, 100*float64(threadTime(t, pid)-used)/float64(took), 100*float64(threadTime(t, engine)-engineUsed)/float64(took))
		}
	}
	measure("idle")
	for _, c := range all {
		pids, err := c.group().Processes()
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGUSR1)
		}
	}
	measure("writing")
}
