package scheduler

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/candor-project/candor/kube/cluster"
)

// kube-scheduler serves the plugin's metrics together with its own.
var (
	nodeTime = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "candor_scheduler_node_duration_seconds",
		Help:           "Time that the plugin takes for one pod and one node, by what it does: narrow (the mean of all nodes), filter, score; of the pods whose plugins kube-scheduler times: every tenth.",
		Buckets:        metrics.ExponentialBuckets(125e-9, 2, 16), // to 4 ms
		StabilityLevel: metrics.ALPHA,
	}, []string{"point"})
	reportingNodes = gauge("candor_scheduler_reporting_nodes", "Nodes whose report is known.")
	reservedPods   = gauge("candor_scheduler_reserved_pods", "Pods that belong to a node whose report does not show them yet.")
	blockedPods    = gauge("candor_scheduler_blocked_pods", "Reserved pods for which their node has no room any more.")
	expiredPods    = metrics.NewCounter(&metrics.CounterOpts{
		Name: "candor_scheduler_reservations_expired_total",
		Help: "Pods that their node has not reported in time.", StabilityLevel: metrics.ALPHA,
	})
	unmetPods = metrics.NewCounter(&metrics.CounterOpts{
		Name: "candor_scheduler_reservations_unmet_total",
		Help: "Pods for which their node has no room by its report.", StabilityLevel: metrics.ALPHA,
	})

	preselectTime, filterTime, scoreTime metrics.ObserverMetric
)

func gauge(name, help string) *metrics.Gauge {
	return metrics.NewGauge(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA})
}

// registerMetrics registers the metrics once, even if several profiles use the plugin.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(nodeTime, reportingNodes, reservedPods, blockedPods, expiredPods, unmetPods)
	preselectTime, filterTime, scoreTime = nodeTime.WithLabelValues("narrow"), nodeTime.WithLabelValues("filter"), nodeTime.WithLabelValues("score")
})

func observe(m metrics.ObserverMetric, began time.Time) { m.Observe(time.Since(began).Seconds()) }

func countTotals(t cluster.Totals) {
	reportingNodes.Set(float64(t.Reporting))
	reservedPods.Set(float64(t.Reserved))
	blockedPods.Set(float64(t.Blocked))
}

func countExpired() { expiredPods.Inc() }

func countUnmet() { unmetPods.Inc() }
