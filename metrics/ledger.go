package metrics

import (
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/ledger"
)

// A HelperReading holds the CPU time that helpers have spent since the start of the agent.
type HelperReading struct {
	Containers   []HelperTotals
	Unattributed map[string]time.Duration // CPU time for no known container, by daemon
	Dropped      time.Duration            // CPU time of helpers for containers that have ended
	Accounts     []ChargedAccount
}

// A ChargedAccount is the account of a container whose limit includes the CPU time of its helpers.
type ChargedAccount struct {
	Name      podname.Name
	Saved     time.Duration // CPU time that the container can still use; negative: debt
	IsCharged bool          // the agent now reduces the container's CPU time below the limit
}

// HelperTotals are the totals of a container. The name of a container without a pod has only the field Container.
type HelperTotals struct {
	Name     podname.Name
	Totals   []ledger.Total
	Credited time.Duration // CPU time that the container has paid for packets of other containers
	HasRX    bool          // packets are measured
}

var (
	helperTime = desc("candor_container_helper_cpu_seconds_total", "CPU time that helpers have spent for a container, by the kind of work and the method of its measurement.",
		"namespace", "pod", "container", "helper", "method")
	creditedTime = desc("candor_container_credited_cpu_seconds_total", "CPU time that a container has paid for packets of other containers.",
		"namespace", "pod", "container")
	unattributedTime = desc("candor_helper_unattributed_cpu_seconds_total", "CPU time of a daemon that no container caused, or whose container is not known.", "daemon")
	accountTime      = desc("candor_container_helper_account_seconds", "CPU time that a charged container can still use: allowed by its limit, minus its own and its helpers' CPU time. Negative: debt.",
		"namespace", "pod", "container")
	isCharged = desc("candor_container_helper_charged", "1 if a container has less CPU time than its limit now, because its helpers use the rest. It looks throttled then.",
		"namespace", "pod", "container")
	droppedTime = desc("candor_helper_dropped_cpu_seconds_total", "CPU time that helpers have spent for containers that had ended.")
)

// NewLedger returns the metrics of candor ledger agent. version is the version of candor. Each scrape calls read.
func NewLedger(version string, read func() *HelperReading) *Metrics {
	m := &Metrics{version: version, registry: prometheus.NewRegistry()}
	m.registry.MustRegister(buildInfo(version), helperCollector{read}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.ready.Store(true)
	return m
}

// buildInfo returns a metric with the version of candor and of Go.
func buildInfo(version string) prometheus.Collector {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "candor_build_info", Help: "1, with the version of candor and of Go."}, []string{"version", "goversion"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	return build
}

type helperCollector struct{ read func() *HelperReading }

func (helperCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{helperTime, creditedTime, unattributedTime, accountTime, isCharged, droppedTime} {
		to <- d
	}
}

// Collect writes the totals. If two containers have the same labels, their totals add up.
func (c helperCollector) Collect(to chan<- prometheus.Metric) {
	r := c.read()
	sums := map[[5]string]time.Duration{}
	for _, container := range r.Containers {
		n := container.Name
		for _, t := range container.Totals {
			labels := [5]string{n.Namespace, n.Pod, n.Container, string(t.Kind), string(t.Method)}
			for i := range labels {
				labels[i] = valid(labels[i])
			}
			sums[labels] += t.Time
		}
	}
	for labels, sum := range sums {
		to <- prometheus.MustNewConstMetric(helperTime, prometheus.CounterValue, sum.Seconds(), labels[:]...)
	}
	c.collectCredits(to, r)
	for daemon, d := range r.Unattributed {
		to <- prometheus.MustNewConstMetric(unattributedTime, prometheus.CounterValue, d.Seconds(), valid(daemon))
	}
	collectAccounts(to, r.Accounts)
	to <- prometheus.MustNewConstMetric(droppedTime, prometheus.CounterValue, r.Dropped.Seconds())
}

// collectAccounts writes the accounts of charged containers. The accounts of containers with the same labels add up.
func collectAccounts(to chan<- prometheus.Metric, accounts []ChargedAccount) {
	type sum struct{ saved, charged float64 }
	sums := map[podname.Name]sum{}
	for _, a := range accounts {
		n := podname.Name{Namespace: valid(a.Name.Namespace), Pod: valid(a.Name.Pod), Container: valid(a.Name.Container)}
		s := sums[n]
		s.saved += a.Saved.Seconds()
		if a.IsCharged {
			s.charged = 1
		}
		sums[n] = s
	}
	for n, s := range sums {
		to <- prometheus.MustNewConstMetric(accountTime, prometheus.GaugeValue, s.saved, n.Namespace, n.Pod, n.Container)
		to <- prometheus.MustNewConstMetric(isCharged, prometheus.GaugeValue, s.charged, n.Namespace, n.Pod, n.Container)
	}
}

// collectCredits writes the credits of containers, if packets are measured.
func (helperCollector) collectCredits(to chan<- prometheus.Metric, r *HelperReading) {
	sums := map[podname.Name]time.Duration{}
	for _, container := range r.Containers {
		if container.HasRX {
			n := container.Name
			sums[podname.Name{Namespace: valid(n.Namespace), Pod: valid(n.Pod), Container: valid(n.Container)}] += container.Credited
		}
	}
	for n, sum := range sums {
		to <- prometheus.MustNewConstMetric(creditedTime, prometheus.CounterValue, sum.Seconds(), n.Namespace, n.Pod, n.Container)
	}
}

// valid replaces invalid UTF-8 in the value of a label.
func valid(label string) string { return strings.ToValidUTF8(label, "?") }
