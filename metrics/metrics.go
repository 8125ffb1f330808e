// Package metrics collects the metrics of candor nri and of the containers of this machine, and serves them to Prometheus. The
// plugin reports its events; a scrape reads the rest from the state and from the kernel's files. A scrape takes no lock, so no
// operation waits for it.
//
// The server expects hostile clients: connections, requests, answers and password checks have bounds, and scrapes share a
// rendering (listener.go, rendering.go, basicauth.go).
package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/candor-project/candor/host"
)

// Metrics count the events of a plugin and its host.
type Metrics struct {
	version    string
	registry   *prometheus.Registry
	refused    *prometheus.CounterVec
	resizes    *prometheus.CounterVec
	downgraded *prometheus.CounterVec
	hints      *prometheus.CounterVec
	took       *prometheus.HistogramVec
	moves      prometheus.Counter
	drift      prometheus.Counter
	failures   prometheus.Counter
	lastDone   prometheus.Gauge
	connected  prometheus.Gauge
	observing  prometheus.Gauge
	lastSync   prometheus.Gauge
	reports    prometheus.Counter
	unreported *prometheus.CounterVec
	lastReport prometheus.Gauge
	events     prometheus.Counter
	dropped    *prometheus.CounterVec

	ready atomic.Bool
}

// buckets are in seconds. A plan takes about 10 µs, and a wait for the lock at most 1.5 s.
var buckets = []float64{.00001, .00005, .0001, .0005, .001, .005, .01, .05, .1, .5, 1, 2}

// New returns metrics of a version of candor. All counters are 0.
func New(version string) *Metrics {
	m := &Metrics{
		version:  version,
		registry: prometheus.NewRegistry(),
		refused: counters("candor_containers_refused_total", "Containers whose creation was refused.",
			refusals),
		resizes: counters("candor_resizes_refused_total", "In-place resizes that were refused; the container keeps its CPUs and limit.",
			refusals),
		downgraded: counters("candor_containers_downgraded_total", "Containers with the class sensitive that Candor treats as flexible.",
			downgrades),
		hints: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "candor_hints_total",
			Help: "Sensitive containers with a hint of the scheduler, by the result of the hint.",
		}, []string{"result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "candor_operation_duration_seconds", Buckets: buckets,
			Help: "Duration of each phase of an operation: the wait for the lock of the state, also if it timed out; the reading of the state and of the kernel's files; the planning; the application of the plan to cgroups, views and the state file.",
		}, []string{"phase"}),
		moves:     counter("candor_fraction_moves_total", "Fractions of running containers that were moved to another CPU."),
		drift:     counter("candor_drift_repairs_total", "Number of times that candor restored the settings of a container or pod cgroup after another program had changed them."),
		failures:  counter("candor_apply_failures_total", "Operations that failed and were reverted."),
		lastDone:  gauge("candor_last_operation_timestamp_seconds", "Unix time of the last completed operation or repair; 0: none."),
		connected: gauge("candor_connected", "1 if the plugin and the runtime are connected and synchronized, else 0."),
		observing: gauge("candor_observing", "1 with --observe: the plugin changes nothing, and refusals are hypothetical."),
		lastSync:  gauge("candor_last_sync_timestamp_seconds", "Unix time of the last synchronization of plugin and runtime; 0: none."),
		reports:   counter("candor_reports_total", "Reports of the node that the API server accepted."),
		unreported: counters("candor_report_failures_total", "Failed attempts to send the report of the node.",
			reportFailures),
		lastReport: gauge("candor_last_report_timestamp_seconds", "Unix time at which the plugin last knew that the API server had the current report of the node; 0: never, or without --publish."),
		events:     counter("candor_events_total", "Writes of Kubernetes Events that the API server accepted."),
		dropped: counters("candor_events_dropped_total", "Occurrences that are in no Kubernetes Event, because of the rate limit of the node or a failure.",
			eventDrops),
	}
	for _, phase := range phases {
		m.took.WithLabelValues(phase)
	}
	for _, result := range []host.HintResult{host.HintTaken, host.HintMissed, HintMalformed, HintForeign} {
		m.hints.WithLabelValues(string(result))
	}
	m.registry.MustRegister(buildInfo(version), m.refused, m.resizes, m.downgraded, m.hints, m.took, m.moves, m.drift, m.failures,
		m.lastDone, m.connected, m.observing, m.lastSync, m.reports, m.unreported, m.lastReport, m.events, m.dropped, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// counters returns a counter for each reason. Each counter exists from the start: a series that starts with its first
// event hides that event from rate().
func counters(name, help string, reasons []Reason) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"reason"})
	for _, r := range reasons {
		c.WithLabelValues(string(r))
	}
	return c
}

var phases = []string{"wait", "read", "plan", "apply"}

// Operation counts an operation of the host.
func (m *Metrics) Operation(r host.Report) {
	if r.Late {
		m.took.WithLabelValues(phases[0]).Observe(r.Wait.Seconds())
		return
	}
	for i, took := range []time.Duration{r.Wait, r.Read, r.Plan, r.Apply} {
		m.took.WithLabelValues(phases[i]).Observe(took.Seconds())
	}
	m.moves.Add(float64(r.Moves))
	m.drift.Add(float64(r.Drift))
	if r.Failed {
		m.failures.Inc()
		return
	}
	if r.Hint != host.NoHint {
		m.hints.WithLabelValues(string(r.Hint)).Inc()
	}
	m.lastDone.SetToCurrentTime()
}

// Refused counts a refused container.
func (m *Metrics) Refused(r Reason) { m.refused.WithLabelValues(string(r)).Inc() }

// ResizeRefused counts a refused resize.
func (m *Metrics) ResizeRefused(r Reason) { m.resizes.WithLabelValues(string(r)).Inc() }

// Downgraded counts a sensitive container that is treated as flexible.
func (m *Metrics) Downgraded(r Reason) { m.downgraded.WithLabelValues(string(r)).Inc() }

// Results of hints that the plugin does not pass to the host.
const (
	HintMalformed host.HintResult = "malformed" // invalid
	HintForeign   host.HintResult = "foreign"   // for another node
)

// HintPassedOver counts a hint that the plugin does not pass to the host.
func (m *Metrics) HintPassedOver(why host.HintResult) { m.hints.WithLabelValues(string(why)).Inc() }

// Synchronized records that the plugin and the runtime are connected.
func (m *Metrics) Synchronized() {
	m.lastSync.SetToCurrentTime()
	m.connected.Set(1)
	m.ready.Store(true)
}

// GivenBack records that the agent has given all containers back and is idle (candor nri --give-back).
func (m *Metrics) GivenBack() { m.ready.Store(true) }

// Observing records that the plugin only plans (candor nri --observe).
func (m *Metrics) Observing() { m.observing.Set(1) }

// Reported records that the API server accepted a report.
func (m *Metrics) Reported() { m.reports.Inc() }

// UpToDate records that the API server has the current report.
func (m *Metrics) UpToDate() { m.lastReport.SetToCurrentTime() }

// Unreported records that a report failed, so that the API server does not have the current report.
func (m *Metrics) Unreported(r Reason) { m.unreported.WithLabelValues(string(r)).Inc() }

// EventWritten counts a write of a Kubernetes Event that the API server accepted.
func (m *Metrics) EventWritten() { m.events.Inc() }

// EventsDropped counts n occurrences that are in no Kubernetes Event.
func (m *Metrics) EventsDropped(r Reason, n int) {
	m.dropped.WithLabelValues(string(r)).Add(float64(n))
}

// Disconnected records that the plugin and the runtime are not connected.
func (m *Metrics) Disconnected() {
	m.connected.Set(0)
	m.ready.Store(false)
}

// A Reason is the label of a counter of refused containers, refused resizes, downgraded containers, failed reports or dropped
// Events. There are few reasons, because each is a time series. The log has the details.
type Reason string

// The reasons of refused containers, failed reports, dropped Events and downgraded containers.
const (
	NoCapacity     Reason = "no-capacity"
	ViewImpossible Reason = "view-impossible"
	BadAnnotation  Reason = "annotation"
	OthersCPUs     Reason = "cpuset" // another program sets the container's cpuset
	NameTaken      Reason = "name-taken"
	BadRequest     Reason = "bad-request"
	Other          Reason = "other" // for example an error of the state's lock, the kernel or the disk

	Unreachable Reason = "unreachable" // the API server does not answer, or not in time
	Forbidden   Reason = "forbidden"   // the access rights, an admission policy or the token do not allow the report
	Conflict    Reason = "conflict"    // another program has written the report
	Invalid     Reason = "invalid"     // the API server has no such object, or another version of it
	BadState    Reason = "state"       // the state of the node cannot be read

	RateLimit Reason = "rate-limit" // more Events than the node may write

	NoLimit         Reason = "no-limit"
	RequestNotLimit Reason = "request-not-limit"
)

var (
	refusals       = []Reason{NoCapacity, ViewImpossible, BadAnnotation, OthersCPUs, NameTaken, BadRequest, Other}
	downgrades     = []Reason{NoLimit, RequestNotLimit}
	eventDrops     = []Reason{RateLimit, Unreachable, Forbidden, Invalid}
	reportFailures = []Reason{Unreachable, Forbidden, Conflict, Invalid, BadState}
)
