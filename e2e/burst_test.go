package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
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
)

// A bursting is a configuration of candor run for a server with a bursty load.
type bursting struct {
	name   string
	flags  []string
	always bool // also measured without CANDOR_BURST_ROUNDS
}

var burstings = []bursting{
	{"none", words("--class flexible --cpu 0.5"), false},
	{"kernel", words("--class flexible --cpu 0.5 --burst kernel"), false},
	{"quota", words("--class flexible --cpu 0.5 --burst quota"), false},
	{"auto", words("--class flexible --cpu 0.5 --burst auto"), true},
	{"period 500ms", words("--class flexible --cpu 0.5 --period 500ms"), false},
	{"no limit", words("--class flexible"), false},
	{"sensitive", words("--cpu 0.5"), false},
	{"sensitive, auto", words("--cpu 0.5 --burst auto"), false},
}

func words(s string) []string { return strings.Fields(s) }

// A response is the result of a round: the server alone, and beside a neighbor that uses all CPU time that it gets.
type response struct {
	p50, p99           float64 // latency of a call, ms
	throttled          float64 // share of the periods
	used               float64 // mean CPU use, CPUs
	besideP99          float64 // latency of a call beside the neighbor, ms
	besideUsed, others float64 // CPU use of the server and of the neighbor during that time
}

// TestBursts has nginx compress a page for clients that are on for 150 ms and off for 3 s.
//
//	CANDOR_BURST_ROUNDS=5 go test ./e2e -run TestBursts -v   all ways, 30 s each, table of docs/benchmarks/burst.md
func TestBursts(t *testing.T) {
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("needs nginx: scripts/test-deps.sh")
	}
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("for latencies, emulated CPUs are too slow")
	}
	rounds, length := 1, 3*time.Second
	text := os.Getenv("CANDOR_BURST_ROUNDS")
	if n, err := strconv.Atoi(text); text != "" && (err != nil || n < 1) {
		t.Fatalf("CANDOR_BURST_ROUNDS=%s: want a number of 1 or more", text)
	} else if text != "" {
		rounds, length = n, 30*time.Second
	}
	results := map[string][]response{}
	for range rounds {
		for _, b := range burstings {
			if b.always || text != "" {
				results[b.name] = append(results[b.name], b.measure(t, length))
			}
		}
	}
	t.Logf("median of %d rounds (lowest to highest)\n%s", rounds, burstTable(results))
}

// measure runs a round.
func (b bursting) measure(t *testing.T, length time.Duration) (r response) {
	l := newLab(t)
	l.need(2)
	url, stop := l.nginx(b.flags)
	defer stop()
	l.hasBurst(b.name)
	before := l.inspect("server", "--during", "0").Group
	began := time.Now()
	calls := l.callsOf(url, length)
	after := l.inspect("server", "--during", "0").Group
	r.p50, r.p99 = 1000*calls.Percentiles["50"], 1000*calls.Percentiles["99"]
	r.throttled = float64(after.ThrottledPeriods-before.ThrottledPeriods) / float64(max(after.Periods-before.Periods, 1))
	r.used = (after.UsageSeconds - before.UsageSeconds) / time.Since(began).Seconds()

	neighbor := l.candor("run", "--class", "flexible", "--name", "neighbor", "--", os.Getenv("CANDOR_BIN"), "load",
		"--threads", "2", "--for", length.String(), "--rest", "0s", "--duration", length.String(), "-o", "json")
	var out bytes.Buffer
	neighbor.Stdout = &out
	if err := neighbor.Start(); err != nil {
		t.Fatal(err)
	}
	before, began = after, time.Now()
	r.besideP99 = 1000 * l.callsOf(url, length).Percentiles["99"]
	r.besideUsed = (l.inspect("server", "--during", "0").Group.UsageSeconds - before.UsageSeconds) / time.Since(began).Seconds()
	if err := neighbor.Wait(); err != nil {
		t.Fatal(err)
	}
	var took loaded
	if err := json.Unmarshal(out.Bytes(), &took); err != nil {
		t.Fatalf("%s: %v", &out, err)
	}
	r.others = took.CPU / took.Span
	return r
}

// hasBurst fails the test unless the server has the burst setting of the configuration, and the kernel the
// matching burst buffer.
func (l *lab) hasBurst(name string) {
	l.Helper()
	var major, minor int
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if _, scanErr := fmt.Sscanf(string(release), "%d.%d", &major, &minor); err != nil || scanErr != nil {
		l.Fatalf("kernel %q: %v, %v", release, err, scanErr)
	}
	r := l.inspect("server", "--during", "0")
	want, kernel := "none", 0.0
	if word := strings.TrimPrefix(name, "sensitive, "); word == "kernel" || word == "quota" || word == "auto" {
		want = word
	}
	if savesUp := major > 5 || major == 5 && minor >= 14; savesUp && (want == "kernel" || want == "auto") {
		kernel = 0.05
	}
	if r.Burst != want || r.Group.BurstSeconds != kernel {
		l.Fatalf("%s: burst %s, of the kernel %v s; want %s, %v", name, r.Burst, r.Group.BurstSeconds, want, kernel)
	}
}

// loaded has the fields of candor load -o json that the tests use.
type loaded struct {
	Count       int
	Errors      int
	CPU         float64            `json:"usageSeconds"`
	Span        float64            `json:"duringSeconds"`
	Percentiles map[string]float64 `json:"percentileSeconds"`
}

func (l *lab) callsOf(url string, length time.Duration) (got loaded) {
	l.Helper()
	text := l.ok("load", url, "--clients", "6", "--on", "150ms", "--off", "3s", "--duration", length.String(), "-o", "json")
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Errors > 0 || got.Count == 0 {
		l.Fatalf("%s: %v", text, err)
	}
	return got
}

// nginx starts nginx under candor run. It compresses a page of 200 kB for each call.
func (l *lab) nginx(flags []string) (url string, stop func()) {
	l.Helper()
	dir := l.TempDir()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	config := fmt.Sprintf(`daemon off; user root; worker_processes auto; pid pid; error_log error.log;
events {}
http {
	access_log off; default_type text/plain; gzip on; gzip_comp_level 6; keepalive_requests 1000000;
	client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
	server { listen %s; root .; gzip_types text/plain; }
}`, address)
	var page strings.Builder
	for n := 0; page.Len() < 200_000; n++ {
		fmt.Fprintf(&page, "line %d has the square %d and the root of neither\n", n, n*n)
	}
	for name, text := range map[string]string{"nginx.conf": config, "page": page.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			l.Fatal(err)
		}
	}
	command := append(append([]string{"run", "--name", "server"}, flags...), "--", "nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	n := l.launch(l.candor(command...))
	url = "http://" + address + "/page"
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if answer, err := http.Get(url); err == nil {
			answer.Body.Close()
			break
		} else if time.Now().After(end) {
			l.Fatal(err)
		}
	}
	return url, func() { n.cmd.Process.Signal(syscall.SIGTERM); n.end() }
}

// burstTable writes the results as the table of docs/benchmarks/burst.md.
func burstTable(results map[string][]response) string {
	var table strings.Builder
	for _, b := range burstings {
		got := results[b.name]
		if got == nil {
			continue
		}
		fmt.Fprintf(&table, "| %s |", b.name)
		for _, of := range []func(response) float64{
			func(r response) float64 { return r.p50 }, func(r response) float64 { return r.p99 },
			func(r response) float64 { return 100 * r.throttled }, func(r response) float64 { return r.used },
			func(r response) float64 { return r.besideP99 }, func(r response) float64 { return r.besideUsed },
			func(r response) float64 { return r.others },
		} {
			values := valuesOf(got, of)
			fmt.Fprintf(&table, " %.3g (%.3g to %.3g) |", median(values), slices.Min(values), slices.Max(values))
		}
		fmt.Fprintln(&table)
	}
	return table.String()
}
