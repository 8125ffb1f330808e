package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/topology"
	"github.com/candor-project/candor/view"
)

// desk is a fake state of a machine.
type desk struct {
	snapshot *host.Snapshot
	readings map[string]host.LiveUsage
	fault    map[string]error // error of reading a container
	broken   error            // error of reading the state
	degraded []host.Degraded
}

func (d *desk) Snapshot() (*host.Snapshot, error) { return d.snapshot, d.broken }

func (d *desk) Degraded() []host.Degraded { return d.degraded }

func (d *desk) ReadUsage(g *host.Grant) (host.LiveUsage, error) {
	return d.readings[g.ID], d.fault[g.ID]
}

// newDesk returns a machine with 8 CPUs, of which two are reserved. It has a sensitive
// and a flexible container of pods, and a sensitive container without a pod.
func newDesk(t *testing.T) *desk {
	t.Helper()
	m, err := topology.Parse("pack:1 numa:1 l3:1 core:8 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	node, err := hybrid.NewNode(m, hybrid.Options{Reserved: cpuset.Of(0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{snapshot: &host.Snapshot{Node: node}, readings: map[string]host.LiveUsage{}, fault: map[string]error{}}
	d.add(t, "web", "default/web/app", hybrid.Request{Limit: 1500, Class: hybrid.Sensitive})
	d.add(t, "log", "default/log/app", hybrid.Request{Guarantee: 250, Class: hybrid.Flexible})
	d.add(t, "job", "", hybrid.Request{Limit: 2000, Class: hybrid.Sensitive})
	d.degraded = []host.Degraded{{Container: "log", Setting: host.SettingWeight}, {Container: "gone", Setting: host.SettingView}}
	return d
}

func (d *desk) add(t *testing.T, id, name string, r hybrid.Request) {
	t.Helper()
	r.ID = id
	plan, err := d.snapshot.Node.Plan(r)
	if err == nil {
		err = d.snapshot.Node.Commit(plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	g := host.Grant{State: host.Running, Engine: host.Engine{Name: name}}
	g.View = spec.ViewAffinity
	g.Grant, _ = d.snapshot.Node.Grant(id)
	d.snapshot.Grants = append(d.snapshot.Grants, g)
	d.readings[id] = host.LiveUsage{CPUs: g.CPUs, Usage: cgroup.Usage{
		CPU: 1500 * time.Millisecond, Periods: 20, Throttled: 5, ThrottledTime: 250 * time.Millisecond}}
}

// bench serves the metrics of a desk.
type bench struct {
	*Metrics
	*desk
	log *bytes.Buffer
}

func newBench(t *testing.T) *bench {
	b := &bench{New("v1.2.3"), newDesk(t), new(bytes.Buffer)}
	b.Watch(b.desk, slog.New(slog.NewTextHandler(b.log, nil)))
	return b
}

// get returns the status code and the body of a page.
func (b *bench) get(path string) (code int, body string) {
	w := httptest.NewRecorder()
	b.handler(nil, slog.New(slog.NewTextHandler(b.log, nil))).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// shows checks that a scrape has lines that start with the given texts. A text with the prefix ! must be missing.
func (b *bench) shows(t *testing.T, wants ...string) {
	t.Helper()
	code, body := b.get("/metrics")
	if code != 200 {
		t.Fatalf("code %d:\n%s", code, body)
	}
	for _, want := range wants {
		text, missing := strings.CutPrefix(want, "!")
		if strings.Contains("\n"+body, "\n"+text) == missing {
			t.Errorf("want %s in\n%s", want, body)
		}
	}
}

func TestScrape(t *testing.T) {
	b := newBench(t)
	b.shows(t,
		`candor_build_info{goversion="go`,
		`candor_state_readable 1`,
		`candor_cpus{pool="exclusive"} 3`,
		`candor_cpus{pool="fractional"} 1`,
		`candor_cpus{pool="shared"} 2`,
		`candor_cpus{pool="reserved"} 2`,
		`candor_cpus{pool="offline"} 0`,
		`candor_usable_cpu_cores 6`,
		`candor_sensitive_cpu_cores 3.5`,
		`candor_flexible_cpu_cores 0.25`,
		`candor_shared_cpu_cores 0`,
		`candor_containers{class="sensitive",state="running"} 2`,
		`candor_containers{class="flexible",state="running"} 1`,
		`candor_containers{class="flexible",state="held"} 0`,
		`candor_container_limit_cpu_cores{class="sensitive",container="app",namespace="default",pod="web"} 1.5`,
		`!candor_container_limit_cpu_cores{class="flexible"`,
		`candor_container_setting_degraded{class="flexible",container="app",namespace="default",pod="log",setting="weight"} 1`,
		`!candor_container_setting_degraded{class="sensitive"`,
		`candor_container_cpus{class="sensitive",container="job",namespace="",pod=""} 2`,
		`candor_container_view_mismatch{class="sensitive",container="app",namespace="default",pod="web"} 0`,
		`!candor_container_view_mismatch{class="flexible"`,
		`candor_container_cpu_seconds_total{class="flexible",container="app",namespace="default",pod="log"} 1.5`,
		`candor_container_cfs_periods_total{class="sensitive",container="app",namespace="default",pod="web"} 20`,
		`candor_container_cfs_throttled_periods_total{class="sensitive",container="app",namespace="default",pod="web"} 5`,
		`candor_container_cfs_throttled_seconds_total{class="sensitive",container="app",namespace="default",pod="web"} 0.25`,
	)
}

func TestCounts(t *testing.T) {
	b := newBench(t)
	b.shows(t, `candor_containers_refused_total{reason="no-capacity"} 0`, `candor_operation_duration_seconds_count{phase="plan"} 0`,
		`candor_last_operation_timestamp_seconds 0`, `candor_last_sync_timestamp_seconds 0`,
		`candor_hints_total{result="taken"} 0`)
	b.HintPassedOver(HintMalformed)
	b.HintPassedOver(HintForeign)
	b.Operation(host.Report{Hint: host.HintTaken, Failed: true}) // the operation was reverted
	b.Operation(host.Report{Hint: host.HintTaken})
	b.Operation(host.Report{Hint: host.HintTaken})
	b.Operation(host.Report{Hint: host.HintMissed})
	b.shows(t, `candor_hints_total{result="taken"} 2`, `candor_hints_total{result="missed"} 1`, `candor_hints_total{result="malformed"} 1`, `candor_hints_total{result="foreign"} 1`)
	b = newBench(t)
	b.Refused(NoCapacity)
	b.ResizeRefused(ViewImpossible)
	b.Downgraded(RequestNotLimit)
	b.Operation(host.Report{Plan: 20 * time.Microsecond, Apply: 2 * time.Millisecond, Moves: 2, Drift: 1})
	b.Operation(host.Report{Apply: time.Second, Failed: true})
	b.Operation(host.Report{Wait: 1500 * time.Millisecond, Late: true})
	b.shows(t,
		`candor_containers_refused_total{reason="no-capacity"} 1`,
		`candor_resizes_refused_total{reason="view-impossible"} 1`,
		`candor_containers_downgraded_total{reason="request-not-limit"} 1`,
		`candor_fraction_moves_total 2`,
		`candor_drift_repairs_total 1`,
		`candor_apply_failures_total 1`,
		`candor_operation_duration_seconds_bucket{phase="plan",le="5e-05"} 2`,
		`candor_operation_duration_seconds_bucket{phase="apply",le="0.005"} 1`,
		`candor_operation_duration_seconds_count{phase="apply"} 2`,
		`candor_operation_duration_seconds_bucket{phase="wait",le="1"} 2`,
		`candor_operation_duration_seconds_count{phase="wait"} 3`,
		`!candor_last_operation_timestamp_seconds 0`)
}

func TestReadiness(t *testing.T) {
	b := newBench(t)
	check := func(want int, connected string) {
		t.Helper()
		if code, body := b.get("/readyz"); code != want {
			t.Errorf("/readyz: %d %s; want %d", code, body, want)
		}
		if code, _ := b.get("/healthz"); code != 200 {
			t.Errorf("/healthz: got %d, want 200", code)
		}
		b.shows(t, "candor_connected "+connected)
	}
	check(503, "0")
	b.Synchronized()
	check(200, "1")
	b.shows(t, "!candor_last_sync_timestamp_seconds 0")
	b.Disconnected()
	check(503, "0")
}

// TestUnreadableContainers: a container that ends during a scrape is omitted without a log line. An
// unreadable container is omitted and logged.
func TestUnreadableContainers(t *testing.T) {
	b := newBench(t)
	b.fault["web"] = fmt.Errorf("cgroup web: %w", cgroup.ErrNoGroup)
	b.shows(t, `!candor_container_cpus{class="sensitive",container="app",namespace="default",pod="web"}`,
		`candor_container_cpus{class="flexible",container="app",namespace="default",pod="log"} `)
	if b.log.Len() > 0 {
		t.Errorf("an ended container was logged: %s", b.log)
	}
	b.fault["log"] = errors.New("input/output error")
	b.shows(t, `!candor_container_cpus{class="flexible"`, `candor_container_cpus{class="sensitive",container="job",namespace="",pod=""} 2`)
	if !strings.Contains(b.log.String(), "container=default/log/app id=log error=\"input/output error\"") {
		t.Errorf("not in the log: %q", b.log)
	}
}

func TestUnreadableState(t *testing.T) {
	b := newBench(t)
	b.broken = errors.New("state /run/candor/state.json: not JSON")
	b.shows(t, `candor_state_readable 0`, `!candor_cpus`, `!candor_container_cpus`, `candor_drift_repairs_total 0`)
	if !strings.Contains(b.log.String(), "not JSON") {
		t.Errorf("not in the log: %q", b.log)
	}
}

// TestContainerLabels: two containers with equal labels, of which the first is about to end, have a single
// series. Labels are escaped.
func TestContainerLabels(t *testing.T) {
	b := newBench(t)
	b.add(t, "web-2", "default/web/app", hybrid.Request{Limit: 1000, Class: hybrid.Flexible})
	b.snapshot.Grants[len(b.snapshot.Grants)-1].Class = hybrid.Sensitive
	b.add(t, "odd", "a\"\n/b\xff\\/c", hybrid.Request{Limit: 100, Class: hybrid.Flexible})
	b.shows(t,
		`candor_container_limit_cpu_cores{class="sensitive",container="app",namespace="default",pod="web"} 1`,
		`candor_container_limit_cpu_cores{class="flexible",container="c",namespace="a\"\n",pod="b?\\"} 0.1`)
	b.add(t, "0123456789ab", "box", hybrid.Request{Limit: 200, Class: hybrid.Flexible})
	b.add(t, "cdef456789ab", "box", hybrid.Request{Limit: 300, Class: hybrid.Flexible}) // of another engine
	b.shows(t,
		`candor_container_limit_cpu_cores{class="flexible",container="box",namespace="",pod=""} 0.2`,
		`candor_container_limit_cpu_cores{class="flexible",container="cdef456789ab",namespace="",pod=""} 0.3`)
}

// seen returns the observation of a container with an affinity, and with files that show the given CPUs.
func seen(affinity, files cpuset.Set) (o host.Observation) {
	o.Sources = []view.Source{{Name: view.SourceAffinity, Role: view.Reported, CPUs: affinity}}
	for _, name := range []string{"online", "cpuinfo"} {
		o.Sources = append(o.Sources, view.Source{Name: name, Role: view.Reported, CPUs: files})
	}
	return o
}

func TestViewMismatch(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*host.Grant, *host.LiveUsage)
		want   string
	}{
		{"CPUs equal the view", func(g *host.Grant, r *host.LiveUsage) { g.View, r.Observation = spec.ViewFull, seen(r.CPUs, r.CPUs) }, "0"},
		{"the program limits its affinity", func(g *host.Grant, r *host.LiveUsage) {
			g.View, r.Observation = spec.ViewFull, seen(r.CPUs.Lowest(1), r.CPUs)
		}, "0"},
		{"a CPU is missing", func(_ *host.Grant, r *host.LiveUsage) { r.CPUs = cpuset.Of(r.CPUs.First()) }, "1"},
		{"no view is mounted", func(g *host.Grant, r *host.LiveUsage) {
			g.View, r.Observation = spec.ViewFull, seen(r.CPUs, cpuset.MustParse("0-7"))
		}, "1"},
		{"a foreign file is mounted", func(g *host.Grant, r *host.LiveUsage) {
			g.View, r.Observation = spec.ViewFull, seen(r.CPUs, r.CPUs)
			r.Observation.Sources[1] = view.Source{Name: "online", Role: view.Reported, Error: "a file of fuse.lxcfs"}
		}, "1"},
		{"too many mounts", func(g *host.Grant, r *host.LiveUsage) { g.View, r.Observation.IsHidden = spec.ViewFull, true }, ""},
		{"too many mounts and a CPU is missing", func(g *host.Grant, r *host.LiveUsage) {
			g.View, r.Observation.IsHidden, r.CPUs = spec.ViewFull, true, cpuset.Of(r.CPUs.First())
		}, "1"},
		{"too many mounts, without a view", func(_ *host.Grant, r *host.LiveUsage) { r.Observation.IsHidden = true }, "0"},
		{"the view shows other CPUs", func(g *host.Grant, r *host.LiveUsage) {
			g.View, r.Observation = spec.ViewFull, seen(r.CPUs, cpuset.Of(0, 1))
		}, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			r := b.readings["web"]
			test.change(&b.snapshot.Grants[0], &r)
			b.readings["web"] = r
			series := `candor_container_view_mismatch{class="sensitive",container="app",namespace="default",pod="web"} `
			if test.want == "" {
				series = "!" + series // unknown
			}
			b.shows(t, series+test.want)
		})
	}
}

// TestMemoryViewMissing: a container whose runtime has not mounted the live files of its view.
func TestMemoryViewMissing(t *testing.T) {
	for _, test := range []struct {
		view     spec.View
		live     view.LiveParts
		isHidden bool
		want     string
	}{
		{spec.ViewFull, view.LiveParts{Memory: true}, false, "0"},
		{spec.ViewFull, view.LiveParts{Stat: true}, false, "1"},
		{spec.ViewFullStat, view.LiveParts{Memory: true, Stat: true}, false, "0"},
		{spec.ViewFullStat, view.LiveParts{Memory: true}, false, "1"},
		{spec.ViewFull, view.LiveParts{}, true, ""},
		{spec.ViewCPU, view.LiveParts{}, false, ""},
	} {
		b := newBench(t)
		r := b.readings["web"]
		b.snapshot.Grants[0].View, r.Observation = test.view, seen(r.CPUs, r.CPUs)
		r.Observation.Live, r.Observation.IsHidden = test.live, test.isHidden
		b.readings["web"] = r
		series := `candor_container_memory_view_missing{class="sensitive",container="app",namespace="default",pod="web"} `
		if test.want == "" {
			series = "!" + series
		}
		b.shows(t, series+test.want)
	}
}

// TestLint: metric names and units pass the checks of promtool check metrics.
func TestLint(t *testing.T) {
	b := newCounting(t, 100*ms)
	b.updateContainers(0)
	_, body := b.get("/metrics")
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
