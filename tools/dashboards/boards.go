package main

import "strings"

// all holds the dashboards.
var all = []board{cluster, node, namespace}

// Labels of the queries.
const (
	onNode        = `{instance="$instance"}`
	ofContainers  = `{namespace=~"$namespace", pod=~"$pod"}`
	containerName = "{{namespace}}/{{pod}}/{{container}}"
	perMinute     = " * 60"
)

// shared is the share of the sensitive containers' CPU time on CPUs in the cpusets of several containers.
func shared(by string) string {
	return "sum" + by + " (candor_shared_cpu_cores) / (sum" + by + " (candor_sensitive_cpu_cores) > 0)"
}

// free is the CPU time of each node that no container has.
const free = "(candor_usable_cpu_cores - candor_sensitive_cpu_cores - candor_flexible_cpu_cores)"

var cluster = board{
	name: "candor-cluster", title: "Candor / Cluster",
	description: "All nodes with Candor: connection, CPUs, refusals, downgraded containers, reports and the scheduler.",
	rows: []row{
		{"Nodes", []panel{
			{kind: number, title: "Nodes", description: "Nodes whose plugin Prometheus scrapes.", unit: "short", width: 4, queries: []query{{"count(candor_connected)", ""}}},
			{kind: number, title: "Not connected", description: "Plugins without a connection to their runtime: new containers start without their CPUs.", unit: "short", width: 4, red: 1,
				queries: []query{{"count(candor_connected == 0) or vector(0)", ""}}},
			{kind: number, title: "Stale reports", description: "Nodes whose report the API server has not had for 5 minutes.", unit: "short", width: 4, red: 1,
				queries: []query{{"count(time() - (candor_last_report_timestamp_seconds > 0) > 300) or vector(0)", ""}}},
			{kind: number, title: "Wrong views", description: "Sensitive containers that do not see the CPUs of their limits.", unit: "short", width: 4, red: 1,
				queries: []query{{"sum(candor_container_view_mismatch) or vector(0)", ""}}},
			{kind: number, title: "Refused, last hour", description: "Containers whose creation was refused.", unit: "short", width: 4, red: 1,
				queries: []query{{"sum(increase(candor_containers_refused_total[1h]))", ""}}},
			{kind: number, title: "Downgraded, last hour", description: "Containers with the class sensitive that are treated as flexible.", unit: "short", width: 4, red: 1,
				queries: []query{{"sum(increase(candor_containers_downgraded_total[1h]))", ""}}},
		}},
		{"CPUs", []panel{
			{kind: stacked, title: "CPUs by pool", unit: "short", queries: []query{{"sum by (pool) (candor_cpus)", "{{pool}}"}}},
			{title: "Allocated CPU time", unit: "short", queries: []query{
				{"sum(candor_sensitive_cpu_cores)", "sensitive"}, {"sum(candor_flexible_cpu_cores)", "flexible"}, {"sum(candor_usable_cpu_cores)", "usable"}}},
			{title: "Shared time", description: "Share of the sensitive containers' CPU time on CPUs in the cpusets of several containers.", unit: "percentunit",
				queries: []query{{shared(""), "all nodes"}, {"max(" + shared(" by (instance)") + ")", "worst node"}}},
			{kind: number, title: "Fragmented nodes", description: "Nodes with free CPU time of at least 2 CPUs, and without a whole free CPU.", unit: "short", width: 6, red: 1,
				queries: []query{{"count(" + free + ` >= 2 and on (instance) candor_cpus{pool="shared"} == 0) or vector(0)`, ""}}},
			{kind: number, title: "Free CPU time", unit: "short", width: 6, queries: []query{{"sum(" + free + ")", ""}}},
			{kind: number, title: "Shared CPUs", description: "CPUs that flexible containers use, and that new sensitive containers can get.", unit: "short", width: 6,
				queries: []query{{`sum(candor_cpus{pool="shared"})`, ""}}},
			{kind: number, title: "Sensitive CPU time", unit: "percentunit", width: 6, queries: []query{{"sum(candor_sensitive_cpu_cores) / sum(candor_usable_cpu_cores)", ""}}},
		}},
		{"Containers", []panel{
			{kind: stacked, title: "Containers", unit: "short", queries: []query{{"sum by (class, state) (candor_containers)", "{{class}} {{state}}"}}},
			{title: "Refused and downgraded, per minute", unit: "short", queries: []query{
				{"sum by (reason) (rate(candor_containers_refused_total[$__rate_interval]))" + perMinute, "refused: {{reason}}"},
				{"sum by (reason) (rate(candor_resizes_refused_total[$__rate_interval]))" + perMinute, "resize refused: {{reason}}"},
				{"sum by (reason) (rate(candor_containers_downgraded_total[$__rate_interval]))" + perMinute, "downgraded: {{reason}}"}}},
			{title: "Hints of the scheduler, per minute", unit: "short", queries: []query{
				{"sum by (result) (rate(candor_hints_total[$__rate_interval]))" + perMinute, "{{result}}"}}},
		}},
		{"API server and scheduler", []panel{
			{title: "Reports and Events, per minute", unit: "short", queries: []query{
				{"sum(rate(candor_reports_total[$__rate_interval]))" + perMinute, "reports"},
				{"sum by (reason) (rate(candor_report_failures_total[$__rate_interval]))" + perMinute, "failed report: {{reason}}"},
				{"sum(rate(candor_events_total[$__rate_interval]))" + perMinute, "Events"},
				{"sum by (reason) (rate(candor_events_dropped_total[$__rate_interval]))" + perMinute, "dropped Event: {{reason}}"}}},
			{title: "Pods of candor-scheduler", unit: "short", queries: []query{
				{"sum(candor_scheduler_reserved_pods)", "reserved"}, {"sum(candor_scheduler_blocked_pods)", "blocked"}, {"max(candor_scheduler_reporting_nodes)", "nodes with a report"}}},
			{title: "Reservations that ended without the pod, per minute", unit: "short", queries: []query{
				{"sum(rate(candor_scheduler_reservations_expired_total[$__rate_interval]))" + perMinute, "expired"},
				{"sum(rate(candor_scheduler_reservations_unmet_total[$__rate_interval]))" + perMinute, "unmet"}}},
		}},
		{"Nodes in detail", []panel{
			{kind: list, title: "Least free CPU time", description: "Usable CPUs minus the limits of the sensitive and the guarantees of the flexible containers.", unit: "short",
				queries: []query{{"bottomk(20, sum by (instance) (" + free + "))", ""}}},
			{kind: list, title: "Most shared time", unit: "percentunit", queries: []query{{"topk(20, " + shared(" by (instance)") + ")", ""}}},
			{kind: list, title: "Most refusals and downgrades in an hour", unit: "short", queries: []query{
				{"topk(20, sum by (instance) (increase(candor_containers_refused_total[1h])) + sum by (instance) (increase(candor_containers_downgraded_total[1h])))", ""}}},
		}},
	},
}

var node = board{
	name: "candor-node", title: "Candor / Node",
	description: "A node with Candor: its plugin, its CPUs, its operations and its containers.",
	variables:   []variable{{"instance", "Node", "label_values(candor_cpus, instance)", true}},
	rows: []row{
		{"Plugin", []panel{
			{kind: number, title: "Connected", description: "1 if the plugin and the runtime are connected.", unit: "short", width: 4, queries: []query{{ofNode("candor_connected"), ""}}},
			{kind: number, title: "Wrong views", description: "Sensitive containers that do not see the CPUs of their limits.", unit: "short", width: 4, red: 1,
				queries: []query{{"sum(" + ofNode("candor_container_view_mismatch") + ") or vector(0)", ""}}},
			{kind: number, title: "Refused, last hour", unit: "short", width: 4, red: 1, queries: []query{{"sum(increase(" + ofNode("candor_containers_refused_total") + "[1h]))", ""}}},
			{kind: number, title: "Repaired, last hour", description: "Settings that another program had changed.", unit: "short", width: 4, red: 1,
				queries: []query{{"increase(" + ofNode("candor_drift_repairs_total") + "[1h])", ""}}},
			{kind: number, title: "Last operation", unit: "s", width: 4, red: 5400, queries: []query{{"time() - " + ofNode("candor_last_operation_timestamp_seconds"), ""}}},
			{kind: number, title: "Last report", description: "Time since the API server had the current report; no value without --publish.", unit: "s", width: 4, red: 300,
				queries: []query{{"time() - (" + ofNode("candor_last_report_timestamp_seconds") + " > 0)", ""}}},
		}},
		{"CPUs", []panel{
			{kind: stacked, title: "CPUs by pool", unit: "short", queries: []query{{ofNode("candor_cpus"), "{{pool}}"}}},
			{title: "Allocated CPU time", unit: "short", queries: []query{
				{ofNode("candor_sensitive_cpu_cores"), "sensitive"}, {ofNode("candor_flexible_cpu_cores"), "flexible"}, {ofNode("candor_usable_cpu_cores"), "usable"}}},
			{title: "Shared time", description: "Share of the sensitive containers' CPU time on CPUs in the cpusets of several containers.", unit: "percentunit",
				queries: []query{{ofNode("candor_shared_cpu_cores") + " / (" + ofNode("candor_sensitive_cpu_cores") + " > 0)", "shared time"}}},
		}},
		{"Operations", []panel{
			{kind: stacked, title: "Containers", unit: "short", queries: []query{{ofNode("candor_containers"), "{{class}} {{state}}"}}},
			{title: "Refused and downgraded, per minute", unit: "short", queries: []query{
				{rateOn("candor_containers_refused_total"), "refused: {{reason}}"}, {rateOn("candor_resizes_refused_total"), "resize refused: {{reason}}"},
				{rateOn("candor_containers_downgraded_total"), "downgraded: {{reason}}"}}},
			{title: "Moves, repairs and failures, per minute", unit: "short", queries: []query{
				{rateOn("candor_fraction_moves_total"), "moves"}, {rateOn("candor_drift_repairs_total"), "repairs"}, {rateOn("candor_apply_failures_total"), "failures"}}},
			{title: "Duration of operations, 99th percentile", unit: "s", width: 12, queries: []query{
				{"histogram_quantile(0.99, sum by (le, phase) (rate(" + ofNode("candor_operation_duration_seconds_bucket") + "[$__rate_interval])))", "{{phase}}"}}},
			{title: "Operations and Events, per minute", unit: "short", width: 12, queries: []query{
				{`rate(candor_operation_duration_seconds_count{instance="$instance", phase="plan"}[$__rate_interval])` + perMinute, "operations"},
				{rateOn("candor_events_total"), "Events"}, {rateOn("candor_events_dropped_total"), "dropped Event: {{reason}}"}}},
		}},
		{"Containers", containerPanels(onNode)},
	},
}

var namespace = board{
	name: "candor-namespace", title: "Candor / Namespace",
	description: "The containers of namespaces: CPU use, limits, throttling and views.",
	variables: []variable{
		{"namespace", "Namespace", "label_values(candor_container_cpus, namespace)", false},
		{"pod", "Pod", `label_values(candor_container_cpus{namespace=~"$namespace"}, pod)`, false},
	},
	rows: []row{
		{"Summary", []panel{
			{kind: number, title: "Running containers", unit: "short", width: 6, queries: []query{{"count(candor_container_cpus" + ofContainers + ") or vector(0)", ""}}},
			{kind: number, title: "Limits", description: "Sum of the limits of the running containers.", unit: "short", width: 6,
				queries: []query{{"sum(candor_container_limit_cpu_cores" + ofContainers + ") or vector(0)", ""}}},
			{kind: number, title: "Wrong views", description: "Sensitive containers that do not see the CPUs of their limits.", unit: "short", width: 6, red: 1,
				queries: []query{{"sum(candor_container_view_mismatch" + ofContainers + ") or vector(0)", ""}}},
			{kind: number, title: "Degraded settings", description: "Settings that the kernel refuses.", unit: "short", width: 6, red: 1,
				queries: []query{{"sum(candor_container_setting_degraded" + ofContainers + ") or vector(0)", ""}}},
			{kind: stacked, title: "CPU use by class", unit: "short", width: 12, queries: []query{
				{"sum by (class) (rate(candor_container_cpu_seconds_total" + ofContainers + "[$__rate_interval]))", "{{class}}"}}},
			{kind: stacked, title: "CPU use by namespace", unit: "short", width: 12, queries: []query{
				{"sum by (namespace) (rate(candor_container_cpu_seconds_total" + ofContainers + "[$__rate_interval]))", "{{namespace}}"}}},
		}},
		{"Containers", containerPanels(ofContainers)},
	},
}

// ofNode returns a metric of the selected node.
func ofNode(metric string) string { return metric + onNode }

// rateOn returns the rate per minute of a counter of the selected node.
func rateOn(counter string) string {
	return "rate(" + ofNode(counter) + "[$__rate_interval])" + perMinute
}

// containerPanels returns the panels of the containers with these labels.
func containerPanels(labels string) []panel {
	labeled := func(expr string) string { return strings.ReplaceAll(expr, "%", labels) }
	return []panel{
		{title: "CPU use against limit", unit: "percentunit", width: 12, queries: []query{
			{labeled("rate(candor_container_cpu_seconds_total%[$__rate_interval]) / candor_container_limit_cpu_cores%"), containerName}}},
		{title: "Throttled periods", description: "Share of the periods in which the quota ran out. A container without a quota counts no periods.", unit: "percentunit", width: 12, queries: []query{
			{labeled("rate(candor_container_cfs_throttled_periods_total%[$__rate_interval]) / (rate(candor_container_cfs_periods_total%[$__rate_interval]) > 0)"), containerName}}},
		{title: "Throttled time", description: "Seconds per second, summed over CPUs.", unit: "short", width: 12, queries: []query{
			{labeled("rate(candor_container_cfs_throttled_seconds_total%[$__rate_interval])"), containerName}}},
		{kind: list, title: "CPUs of containers", unit: "short", width: 12, queries: []query{{labeled("candor_container_cpus%"), ""}}},
		{kind: list, title: "Limits of containers", unit: "short", width: 12, queries: []query{{labeled("candor_container_limit_cpu_cores%"), ""}}},
		{kind: list, title: "Wrong views", description: "1 if a sensitive container does not see the CPUs of its limit.", unit: "short", width: 12,
			queries: []query{{labeled("candor_container_view_mismatch%"), ""}}},
	}
}
