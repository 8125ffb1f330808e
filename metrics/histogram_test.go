package metrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

const ms = time.Millisecond

// meter is a fake usage reader of a container.
type meter struct {
	cgroup.Usage
	err    error
	closed *int
}

func (m *meter) Read() (cgroup.Usage, error) { return m.Usage, m.err }
func (m *meter) Close()                      { *m.closed++ }

// counting is a bench with histograms and the meters of its containers.
type counting struct {
	*bench
	*Histograms
	meters map[string]*meter
	closed int
}

func (c *counting) OpenUsage(g *host.Grant) (Usage, error) {
	if c.meters[g.ID] == nil {
		c.meters[g.ID] = &meter{closed: &c.closed}
	}
	return c.meters[g.ID], nil
}

func newCounting(t *testing.T, finest time.Duration) *counting {
	c := &counting{bench: newBench(t), meters: map[string]*meter{}}
	c.Histograms = c.Histogram(finest, c, slog.New(slog.NewTextHandler(c.bench.log, nil)))
	return c
}

// of returns the start of a line with a metric of the container app in a pod, for a window.
func of(name, id, window, rest string) string {
	return fmt.Sprintf(`candor_container_%s{class="flexible",container="app",namespace="default",pod="%s",window="%s"%s`, name, id, window, rest)
}

// TestHistograms: windows of each length are counted by use and by throttled time. A late window is in no
// histogram.
func TestHistograms(t *testing.T) {
	c := newCounting(t, 100*ms)
	c.updateContainers(0)
	log := c.meters["log"]
	for n := range 20 { // each fifth window uses 1 CPU and is throttled for half of it
		if n%5 == 0 {
			log.CPU += 100 * ms
			log.ThrottledTime += 50 * ms
		}
		c.sample(time.Duration(n+1) * 100 * ms)
	}
	c.shows(t,
		of("use_cpu_cores_bucket", "log", "100ms", `,le="0.01"} 16`), of("use_cpu_cores_bucket", "log", "100ms", `,le="0.5"} 16`),
		of("use_cpu_cores_bucket", "log", "100ms", `,le="1"} 20`), of("use_cpu_cores_sum", "log", "100ms", "} 4"),
		of("use_cpu_cores_bucket", "log", "1s", `,le="0.1"} 0`), of("use_cpu_cores_bucket", "log", "1s", `,le="0.2"} 2`),
		of("throttled_cpu_cores_bucket", "log", "100ms", `,le="0"} 16`), of("throttled_cpu_cores_bucket", "log", "100ms", `,le="0.5"} 20`),
		`candor_late_windows_total 0`, `candor_windows_containers_left_out 0`)
	if _, body := c.get("/metrics"); strings.Contains(body, `window="10ms"`) {
		t.Error("the metrics have shorter windows than configured")
	}
	log.CPU += time.Second
	c.sample(2300 * ms)
	c.shows(t, of("use_cpu_cores_count", "log", "100ms", "} 20"), `candor_late_windows_total 3`)
	c.sample(2400 * ms)
	c.shows(t, of("use_cpu_cores_count", "log", "100ms", "} 21"))
}

// TestHistogramsEnd: the series of an ended container disappear and its meter is closed. A container with the
// same name is counted again.
func TestHistogramsEnd(t *testing.T) {
	c := newCounting(t, 10*ms)
	c.updateContainers(0)
	c.meters["log"].err = fmt.Errorf("cgroup log: %w", fs.ErrNotExist)
	c.sample(10 * ms)
	c.shows(t, "!"+of("use_cpu_cores_count", "log", "10ms", "}"), `candor_container_use_cpu_cores_count{class="sensitive",container="job",namespace="",pod="",window="10ms"} 1`)
	if c.closed != 1 || c.bench.log.Len() > 0 {
		t.Errorf("%d meters closed; %s", c.closed, c.bench.log)
	}
	delete(c.meters, "log")
	c.updateContainers(20 * ms)
	for i := range c.snapshot.Grants {
		if c.snapshot.Grants[i].ID == "log" {
			c.snapshot.Grants[i].ID = "log-2" // the new container of the pod
		}
	}
	c.updateContainers(30 * ms)
	c.sample(40 * ms)
	c.shows(t, of("use_cpu_cores_count", "log", "10ms", "} 1"))
	c.broken = errors.New("not JSON")
	c.updateContainers(50 * ms)
	c.updateContainers(60 * ms)
	if logged := c.bench.log.String(); strings.Count(logged, "not JSON") != 1 {
		t.Errorf("want the error once in the log: %s", logged)
	}
	c.broken = nil
	c.meters["log-2"].err = errors.New("input/output error")
	c.sample(70 * ms)
	if logged := c.bench.log.String(); !strings.Contains(logged, `container=default/log/app id=log-2 error="input/output error"`) {
		t.Errorf("want the name and the ID in the log: %s", logged)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if c.Run(done); c.closed != 6 || len(c.containers) != 0 {
		t.Errorf("%d meters closed, %d containers remain", c.closed, len(c.containers))
	}
}

// TestHistogramsAreBounded: at most maxHistograms containers have histograms. The other containers are counted.
func TestHistogramsAreBounded(t *testing.T) {
	c := newCounting(t, 10*ms)
	for n := range maxHistograms {
		g := host.Grant{State: host.Running, Engine: host.Engine{Name: fmt.Sprintf("default/job-%d/app", n)}}
		g.Grant.Request = hybrid.Request{ID: fmt.Sprint("job-", n), Class: hybrid.Flexible}
		c.snapshot.Grants = append(c.snapshot.Grants, g)
	}
	c.updateContainers(0)
	c.sample(10 * ms)
	if _, body := c.get("/metrics"); strings.Count(body, "\ncandor_container_use_cpu_cores_count{") != maxHistograms*len(HistogramWindows) {
		t.Error("want series for maxHistograms containers")
	}
	c.shows(t, `candor_windows_containers_left_out 3`)
}
