package containerd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// served matches the log line with the address of a plugin's metrics.
var served = regexp.MustCompile(`address=(http://\S+)/metrics`)

// A prober sends requests to a plugin as Prometheus and the kubelet do.
type prober struct {
	*lab
	base string
}

// newProber returns a prober of the plugin that wrote a log.
func (l *lab) newProber(log string) *prober {
	l.Helper()
	found := served.FindStringSubmatch(log)
	if found == nil {
		l.Fatalf("the log has no address of the metrics:\n%s", log)
	}
	return &prober{l, found[1]}
}

// get requests a page and returns the status code, or 0 if the plugin does not answer.
func (p *prober) get(page string) (code int, body string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+page, nil)
	if err != nil {
		p.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// value returns the value of a series in a scrape. ok is false if the series is missing.
func (p *prober) value(series string) (v float64, ok bool) {
	p.Helper()
	code, body := p.get("/metrics")
	if code != http.StatusOK {
		p.Fatalf("/metrics: %d %s", code, body)
	}
	for line := range strings.Lines(body) {
		if rest, is := strings.CutPrefix(line, series+" "); is {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				p.Fatalf("%s: %v", line, err)
			}
			return v, true
		}
	}
	return 0, false
}

// noted waits until the state has all containers as running, which candor nri records shortly after their start.
func (l *lab) noted() {
	l.Helper()
	l.wait("the notes of what runs", cmp.Or(l.plugin, l.engine), func() bool {
		text, err := os.ReadFile(l.path("candor/state.json"))
		return err == nil && !bytes.Contains(text, []byte(`"state":"pending"`))
	})
}

// wants compares the value of a series with the expected value.
func (p *prober) wants(series string, want float64) {
	p.Helper()
	if got, ok := p.value(series); got != want || !ok {
		p.Errorf("%s is %v (%v), want %v", series, got, ok, want)
	}
}

// of returns the name of a container's series.
func of(metric string, c *container, class string) string {
	return fmt.Sprintf(`%s{class="%s",container="%s",namespace="default",pod="%s"}`, metric, class, c.name, c.pod.name)
}

// TestMetrics: the metrics equal the values of the kernel and the runtime, for a container of each class, a refused, a
// downgraded and a throttled container.
func TestMetrics(t *testing.T) {
	l := newEngine(t)
	l.startPlugin("--metrics", "0", "--record-histogram", "100ms")
	p := l.newProber(l.plugin.output())
	all := l.all()
	if all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	busy := must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("busy", 50, 20, false, "sh", "-c", "while :; do :; done"))
	web := must[*container](t)(must[*pod](t)(l.newPod(1000, 1000, sensitivePod)).run("web", 1000, 1000, true))
	l.noted()
	p.wants(`candor_cpus{pool="exclusive"}`, 1)
	p.wants(`candor_cpus{pool="shared"}`, float64(all.Count()-1))
	p.wants(`candor_sensitive_cpu_cores`, 1)
	p.wants(`candor_containers{class="sensitive",state="running"}`, 1)
	p.wants(of("candor_container_limit_cpu_cores", web, "sensitive"), 1)
	p.wants(of("candor_container_cpus", web, "sensitive"), 1)
	p.wants(of("candor_container_view_mismatch", web, "sensitive"), 0)
	p.wants(of("candor_container_limit_cpu_cores", busy, "flexible"), 0.05)

	for annotations, reason := range map[string]string{"sensitive": "no-capacity", "sensitve": "annotation"} {
		pod := must[*pod](t)(l.newPod(0, 0, map[string]string{"candor.dev/class": annotations}))
		if _, err := pod.run("big", 100000, 100000, true); err == nil {
			t.Fatalf("%s: not refused", annotations)
		}
		p.wants(`candor_containers_refused_total{reason="`+reason+`"}`, 1)
	}
	must[*container](t)(must[*pod](t)(l.newPod(0, 0, sensitivePod)).run("log", 100, 50, false))
	p.wants(`candor_containers_downgraded_total{reason="request-not-limit"}`, 1)
	if err := web.resize(100000); err == nil {
		t.Error("a hundred CPUs were not refused")
	}
	p.wants(`candor_resizes_refused_total{reason="no-capacity"}`, 1)

	l.wait("the busy container to be throttled", l.plugin, func() bool {
		throttled, _ := p.value(of("candor_container_cfs_throttled_periods_total", busy, "flexible"))
		stood, _ := p.value(of("candor_container_cfs_throttled_seconds_total", busy, "flexible"))
		used, _ := p.value(of("candor_container_cpu_seconds_total", busy, "flexible"))
		return throttled > 0 && stood > 0 && used > 0
	})
	l.wait("windows in which the busy container stood still", l.plugin, func() bool {
		window := func(name, rest string) float64 {
			v, _ := p.value(strings.TrimSuffix(of(name, busy, "flexible"), "}") + `,window="100ms"` + rest)
			return v
		}
		all, moving := window("candor_container_throttled_cpu_cores_count", "}"), window("candor_container_throttled_cpu_cores_bucket", `,le="0"}`)
		return all > moving && window("candor_container_use_cpu_cores_sum", "}") > 0
	})
	if err := web.pod.remove(); err != nil {
		t.Fatal(err)
	}
	if v, ok := p.value(of("candor_container_cpus", web, "sensitive")); ok {
		t.Errorf("a container that is no more has %v CPUs", v)
	}
	p.lint()
}

// lint checks a scrape with Prometheus' linter.
func (p *prober) lint() {
	p.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		p.Logf("%v: not checked by it", err)
		return
	}
	_, body := p.get("/metrics")
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(body)
	if out, err := check.CombinedOutput(); err != nil {
		p.Errorf("promtool: %v\n%s", err, out)
	}
}

// TestScrapeTakesNoLock: the plugin answers a scrape while another process holds the lock of the state.
func TestScrapeTakesNoLock(t *testing.T) {
	l := newEngine(t)
	l.startPlugin("--metrics", "0")
	p := l.newProber(l.plugin.output())
	web := must[*container](t)(must[*pod](t)(l.newPod(1000, 1000, sensitivePod)).run("web", 1000, 1000, true))
	l.noted()
	lock, err := os.Open(l.path("candor/lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	p.wants(of("candor_container_cpus", web, "sensitive"), 1)
	for page, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 200, "/other": 404} {
		if code, body := p.get(page); code != want {
			t.Errorf("%s: %d %s, want %d", page, code, body, want)
		}
	}
}

// TestReadiness: a plugin is ready while it is connected to the runtime, and always alive.
func TestReadiness(t *testing.T) {
	l := newEngine(t)
	l.startPlugin("--metrics", "0")
	p := l.newProber(l.plugin.output())
	ready := func(want int) {
		l.Helper()
		l.wait(fmt.Sprintf("/readyz to be %d", want), l.plugin, func() bool { code, _ := p.get("/readyz"); return code == want })
	}
	ready(200)
	first, _ := p.value("candor_last_sync_timestamp_seconds")
	l.engine.kill()
	ready(503)
	if code, body := p.get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d %s", code, body)
	}
	p.wants("candor_connected", 0)
	l.startEngine()
	ready(200)
	if again, _ := p.value("candor_last_sync_timestamp_seconds"); again <= first {
		t.Errorf("last sync at %v, before that at %v", again, first)
	}
}
