package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/kube/kubectl-candor/internal/controlplane"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

// TestBench measures the page with thousands of nodes on an idle machine, with the bounds of docs/web.md. kwok plays the
// kubelets of the nodes, and each report has 30 pods.
//
//	make bench-web WEB_NODES=5000
func TestBench(t *testing.T) {
	if os.Getenv("CANDOR_WEB_NODES") == "" {
		t.Skip("needs an idle machine, kwok and CANDOR_WEB_NODES: make bench-web")
	}
	n, err := strconv.Atoi(os.Getenv("CANDOR_WEB_NODES"))
	if err != nil || n < 10 {
		t.Fatalf("CANDOR_WEB_NODES %q: must be a number, 10 at least", os.Getenv("CANDOR_WEB_NODES"))
	}
	b := &bench{plane: startPlane(t), n: n, dir: t.TempDir()}
	b.fill(t)
	one, hundred := b.requests(t, 1), b.requests(t, 100)
	t.Logf("requests for reports with 1 browser: %s; with 100 browsers: %s", one, hundred)
	if one != hundred {
		t.Errorf("with 1 browser %s, with 100 browsers %s", one, hundred)
	}
	p := b.serve(t)
	b.draw(t, p)
	b.cost(t, p)
}

// A bench is a cluster with n nodes.
type bench struct {
	*plane
	n   int
	dir string
}

// fill creates the nodes and their reports.
func (b *bench) fill(t *testing.T) {
	started := time.Now()
	controlplane.StartChild(t, b.dir, os.Getenv("CANDOR_KWOK"), "--kubeconfig="+b.kubeconfig(t), "--manage-all-nodes=true", "--node-lease-duration-seconds=40")
	inParallel(t, b.n, func(i int) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}}
		_, err := b.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		return err
	})
	inParallel(t, b.n, func(i int) error { return b.report(t.Context(), generated(t, i, 1)) })
	t.Logf("%d nodes and reports: %v", b.n, time.Since(started).Round(time.Second))
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// generated returns a report of a node of 64 CPUs with 30 pods, of which 12 are sensitive. Each counter has other limits.
func generated(t testing.TB, i int, counter int64) *v1alpha1.NodeCPU {
	machine, err := topology.Parse("pack:2 numa:1 l3:4 core:4 pu:2")
	if err != nil {
		t.Fatal(err)
	}
	node, err := hybrid.NewNode(machine, hybrid.Options{Reserved: cpuset.Of(0, 1), MinShared: 500})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(i), uint64(counter)))
	for pod := range 30 {
		r := hybrid.Request{ID: fmt.Sprintf("%08d-0000-4000-8000-%012d/app", i, pod), Class: hybrid.Flexible, Limit: 1000, Guarantee: 200}
		if pod < 12 {
			r.Class, r.Guarantee, r.Limit = hybrid.Sensitive, 0, hybrid.Milli(500*(1+random.IntN(9)))
		}
		if _, _, err := node.Place(&r); err != nil && pod >= 12 {
			t.Fatal(err)
		}
	}
	r := &v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}, Status: nodecpu.Status(node, nodecpu.HolderOf)}
	r.Status.Counter, r.Status.Policy, r.Status.Reported = counter, "strict", metav1.Now()
	return r
}

// kubeconfig writes a kubeconfig of the administrator.
func (b *bench) kubeconfig(t *testing.T) string {
	t.Helper()
	return apitest.Write(t, b.dir, "kubeconfig", apitest.Kubeconfig(b.config.Host, "insecure-skip-tls-verify: true", "token: "+controlplane.AdminToken))
}

// A webProcess is a running kubectl candor web.
type webProcess struct {
	command   *exec.Cmd
	addresses chan string
}

// serve starts kubectl candor web.
func (b *bench) serve(t *testing.T) *webProcess {
	t.Helper()
	c := exec.Command(os.Getenv("CANDOR_PLUGIN"), "web", "--kubeconfig", b.kubeconfig(t))
	out, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := &webProcess{c, make(chan string, 1000)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, address, ok := strings.Cut(lines.Text(), "open http"); ok {
				p.addresses <- "http" + address
			} else if _, address, ok := strings.Cut(lines.Text(), "Open http"); ok {
				p.addresses <- "http" + address
			}
		}
		close(p.addresses)
	}()
	t.Cleanup(p.end)
	return p
}

func (p *webProcess) end() {
	_ = p.command.Process.Signal(os.Interrupt) // an error means that it has ended
	_ = p.command.Wait()
}

// open starts a session as a browser does, and follows the changes until the context is done.
func (p *webProcess) open(ctx context.Context, t *testing.T) {
	t.Helper()
	address := <-p.addresses
	host, token, _ := strings.Cut(address, "/#token=")
	call := func(method, path, secret, body string) *http.Response {
		r, err := http.NewRequestWithContext(ctx, method, host+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		response, err := http.DefaultClient.Do(r)
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("%s: %v, %+v", path, err, response)
		}
		return response
	}
	session := decodeBody[struct{ Session string }](t, call("POST", "/api/session", "", fmt.Sprintf(`{"token":%q}`, token))).Session
	data := readAll(t, call("GET", "/api/map", session, ""))
	revision, nodes := decode(t, data)
	if len(nodes) == 0 {
		t.Error("the map has no nodes")
	}
	stream := call("GET", fmt.Sprintf("/api/events?since=%d", revision), session, "")
	go func() { _, _ = io.Copy(io.Discard, stream.Body) }() // until the context is done
}

// requests returns the number of requests for reports that the API server has received from a server with some browsers, in 10
// seconds.
func (b *bench) requests(t *testing.T, browsers int) string {
	t.Helper()
	before := b.requestTotals(t)
	p := b.serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	for range browsers {
		p.open(ctx, t)
	}
	time.Sleep(10 * time.Second)
	cancel()
	p.end()
	time.Sleep(2 * time.Second) // the API server counts a watch at its end
	var words []string
	for verb, n := range b.requestTotals(t) {
		if n -= before[verb]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, verb))
		}
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

var requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="nodecpus".*verb="(LIST|WATCH|GET)".*\} ([0-9.e+]+)$`)

// requestTotals returns apiserver_request_total of the reports by verb.
func (b *bench) requestTotals(t *testing.T) map[string]int {
	t.Helper()
	text, err := b.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	totals := map[string]int{}
	for _, m := range requestTotal.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		totals[m[1]] += int(n)
	}
	return totals
}

// draw measures the time from the navigation to the drawn map in Chromium, and the time until a change is seen.
func (b *bench) draw(t *testing.T, p *webProcess) {
	tab := startBrowser(t)
	tab.do(chromedp.Navigate(<-p.addresses))
	const drawn = "performance.getEntriesByName('drawn')[0]?.startTime"
	var times []time.Duration
	for range 10 {
		tab.do(chromedp.Reload())
		tab.await(drawn)
		ms, err := strconv.ParseFloat(tab.eval(drawn), 64)
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Duration(ms*float64(time.Millisecond)).Round(time.Millisecond))
	}
	slices.Sort(times)
	median := (times[4] + times[5]) / 2
	t.Logf("from the navigation to the drawn map: median %v, %v", median, times)
	if median > time.Second {
		t.Errorf("median %v, want less than 1s", median)
	}
	tab.picture("bench")
	tab.run("location.hash = 'view=table&q=" + nodeName(b.n-1) + "'")
	row := "document.querySelector('#table tbody tr')?.textContent"
	tab.await(row)
	var seen []time.Duration
	for counter := range int64(5) {
		before := strconv.Quote(tab.eval(row))
		started := time.Now()
		if err := b.report(t.Context(), generated(t, b.n-1, counter+2)); err != nil {
			t.Fatal(err)
		}
		tab.await(row + " !== " + before)
		seen = append(seen, time.Since(started).Round(time.Millisecond))
	}
	t.Logf("a change is seen after %v", seen)
	if longest := slices.Max(seen); longest > 2*time.Second {
		t.Errorf("a change is seen after %v, want less than 2s", longest)
	}
}

// cost measures the memory and the CPU time of the server with a browser, while each node changes once in a minute.
func (b *bench) cost(t *testing.T, p *webProcess) {
	p.open(t.Context(), t)
	const length = time.Minute
	reports := make([]*v1alpha1.NodeCPU, b.n)
	for i := range reports {
		reports[i] = generated(t, i, 100)
	}
	before, started := p.cpuTime(t), time.Now()
	tick := time.NewTicker(length / time.Duration(b.n))
	defer tick.Stop()
	slots := make(chan error, 16)
	for range cap(slots) {
		slots <- nil
	}
	for _, r := range reports {
		<-tick.C
		if err := <-slots; err != nil {
			t.Fatal(err)
		}
		go func() { slots <- b.report(t.Context(), r) }()
	}
	took := time.Since(started)
	used := p.cpuTime(t) - before
	resident, peak := p.memory(t, "VmRSS"), p.memory(t, "VmHWM")
	share := float64(used) / float64(took)
	t.Logf("%d changes in %v: %.1f %% of a CPU, %d MB resident, at most %d MB", b.n, took.Round(time.Second), 100*share, resident>>20, peak>>20)
	if share > .05 || peak > 200e6 {
		t.Errorf("%.1f %% of a CPU and %d MB, want at most 5 %% and 200 MB", 100*share, peak/1e6)
	}
}

// cpuTime returns the CPU time that the server has used.
func (p *webProcess) cpuTime(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.command.Process.Pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	var ticks int
	for _, field := range fields[11:13] { // utime and stime, in ticks of 10 ms
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory returns a line of /proc/PID/status in bytes.
func (p *webProcess) memory(t *testing.T, key string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.command.Process.Pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s", key)
	return 0
}
