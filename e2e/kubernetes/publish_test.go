package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A machine has a state directory and groups of its own, and runs candor nri without a container runtime.
type machine struct {
	t       *testing.T
	number  int64
	dir     string
	nri     *exec.Cmd
	metrics string
}

// machines counts the machines. Each has cgroups of its own.
var machines atomic.Int64

// buildCandor builds candor once for all tests.
var buildCandor = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-o", plane.path("candor"), "../../cmd/candor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	if err := buildCandor(); err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, number: machines.Add(1), dir: t.TempDir()}
	tree, err := cgroup.Open(cgroup.Options{Parent: m.parent(), Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually(t, "its groups are empty, and removed", func() bool { return tree.Remove() == nil })
	})
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }
func (m *machine) parent() string          { return fmt.Sprintf("/candor-publish-%d-%d", os.Getpid(), m.number) }

func (m *machine) command(args ...string) *exec.Cmd {
	c := exec.Command(plane.path("candor"), args...)
	c.Env = append(os.Environ(), "CANDOR_STATE_DIR="+m.path("state"), "CANDOR_CONFIG="+m.path("host.json"),
		"CANDOR_CGROUP_PARENT="+m.parent(), "CANDOR_CGROUP_DRIVER=cgroupfs")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// run starts a container with the limit 500m, which runs until the end of the test or until its own end.
func (m *machine) run(name string) { m.runProgram(name, "sleep", "infinity") }

// runProgram starts a container as run does, with another program.
func (m *machine) runProgram(name string, program ...string) {
	m.t.Helper()
	c := m.command(append([]string{"run", "--name", name, "--cpu", "500m", "--class", "sensitive", "--"}, program...)...)
	if err := c.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { m.release(name); _ = c.Wait() })
	eventually(m.t, name+" runs", func() bool { return strings.Contains(m.ps(), "running") && strings.Contains(m.ps(), name) })
}

func (m *machine) ps() string {
	out, _ := m.command("ps").CombinedOutput() // an empty list will not do either
	return string(out)
}

func (m *machine) release(name string) { _, _ = m.command("release", "--kill", name).CombinedOutput() }

// publish starts candor nri --publish as the agent of a node.
func (m *machine) publish(p *controlPlane, node, token string) {
	m.t.Helper()
	p.writeAccess(m.t, m.path("kubeconfig"), token)
	ports, err := freePorts(1)
	if err != nil {
		m.t.Fatal(err)
	}
	m.metrics = ports[0]
	m.nri = m.command("nri", "--publish", "--node-name", node, "--kubeconfig", m.path("kubeconfig"), "--socket", m.path("none.sock"), "--metrics", m.metrics)
	log, err := os.Create(m.path("log"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	m.nri.Stdout, m.nri.Stderr = log, log
	if err := m.nri.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = m.nri.Process.Kill()
		_ = m.nri.Wait()
		if m.t.Failed() {
			m.t.Logf("candor nri:\n%s", m.log())
		}
	})
}

func (m *machine) log() string {
	text, _ := os.ReadFile(m.path("log"))
	return string(text)
}

// look makes candor nri read the state now. SIGHUP starts a repair, which otherwise runs every 10 s.
func (m *machine) look() { _ = m.nri.Process.Signal(syscall.SIGHUP) }

// metric returns the value of a metric, or -1 if the metric is missing.
func (m *machine) metric(name string) float64 {
	response, err := http.Get("http://" + m.metrics + "/metrics")
	if err != nil {
		return -1
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return -1
	}
	value, _ := strconv.ParseFloat(string(found[1]), 64)
	return value
}

// has reports whether the report of a node has exactly these containers. A node must be restorable from the report.
func (p *controlPlane) has(t *testing.T, node string, containers ...string) bool {
	code, text := p.try("GET", nodeCPUs+"/"+node, adminToken, nil)
	var n v1alpha1.NodeCPU
	if code != http.StatusOK || json.Unmarshal([]byte(text), &n) != nil || n.Status.Counter == 0 {
		return false
	}
	if _, err := nodecpu.Node(&n.Status); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(n.OwnerReferences) != 1 || n.OwnerReferences[0].Name != node || n.OwnerReferences[0].UID == "" {
		t.Fatalf("it does not go with its node: %s", text)
	}
	var has []string
	for _, g := range n.Status.Grants {
		has = append(has, g.Container)
	}
	return strings.Join(has, " ") == strings.Join(containers, " ")
}

// TestPublish: the report of the node reaches the cluster. Without an API server, the node continues, and the changes are reported later.
func TestPublish(t *testing.T) {
	p := install(t)
	m := newMachine(t)
	token := agentOf(t, p, "publishing")
	p.must(t, "PUT", "/api/v1/nodes/publishing/status", []byte(`{"metadata":{"name":"publishing"},"status":{"allocatable":{"cpu":"1500500m"}}}`))
	m.publish(p, "publishing", token)
	eventually(t, "an empty node is reported", func() bool { return p.has(t, "publishing") })
	if log := m.log(); !strings.Contains(log, "allocatable CPU differs") || !strings.Contains(log, "allocatable=1500500m") {
		t.Error("the difference of allocatable, 1500.5 CPUs, is not logged")
	}
	m.run("web")
	m.look()
	eventually(t, "web is reported", func() bool { return p.has(t, "publishing", "web") })

	p.killServer()
	m.run("db")
	m.release("web")
	m.look()
	eventually(t, "the failure is counted", func() bool { return m.metric(`candor_report_failures_total{reason="unreachable"}`) > 1 })
	if err := p.startServer(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what has changed meanwhile is reported", func() bool { return p.has(t, "publishing", "db") })
	// An API server that has just begun may not know its users' rights yet: that is another reason, and another line.
	if log := m.log(); len(regexp.MustCompile("not published.*connection refused").FindAllString(log, -1)) > 1 || strings.Count(log, "not published") > 2 || strings.Count(log, "msg=published") != 2 {
		t.Errorf("want a line when the API server goes, one at the beginning and one when it is back")
	}
	if n := m.metric("candor_reports_total"); n < 2 || m.metric("candor_last_report_timestamp_seconds") <= 0 {
		t.Errorf("%v reports", n)
	}
	m.checkMemory()
}

// checkMemory fails the test if the agent uses more memory than its limit.
func (m *machine) checkMemory() {
	m.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.nri.Process.Pid))
	if err != nil {
		m.t.Fatal(err)
	}
	kib := map[string]int{}
	for _, field := range regexp.MustCompile(`(?m)^(VmRSS|RssAnon|RssFile):\s+(\d+) kB$`).FindAllSubmatch(status, -1) {
		kib[string(field[1])], _ = strconv.Atoi(string(field[2]))
	}
	m.t.Logf("candor nri --publish: %.1f MiB, %.1f of them anonymous, %.1f of the program's file",
		float64(kib["VmRSS"])/1024, float64(kib["RssAnon"])/1024, float64(kib["RssFile"])/1024)
	if n := kib["VmRSS"]; n == 0 || n > 30<<10 {
		m.t.Errorf("%d KiB: want 30 MiB at most", n)
	}
}

// TestPublishAsAnother: an agent with the name of another node is refused, and its node continues.
func TestPublishAsAnother(t *testing.T) {
	p := install(t)
	m := newMachine(t)
	agentOf(t, p, "victim")
	m.publish(p, "victim", agentOf(t, p, "liar"))
	eventually(t, "the refusal is counted", func() bool { return m.metric(`candor_report_failures_total{reason="forbidden"}`) > 0 })
	if log := m.log(); !strings.Contains(log, "only the agent of node victim writes its NodeCPU, not that of liar") {
		t.Error("the log has no reason")
	}
	if code, _ := p.try("GET", nodeCPUs+"/victim", adminToken, nil); code != http.StatusNotFound {
		t.Errorf("the victim has a report: %d", code)
	}
	m.run("web")
}
