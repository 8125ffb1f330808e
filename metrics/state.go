package metrics

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/view"
)

// A Source provides the data of a scrape. *host.Host implements it.
type Source interface {
	Snapshot() (*host.Snapshot, error)
	ReadUsage(*host.Grant) (host.LiveUsage, error)
	Degraded() []host.Degraded // settings that the kernel refuses
}

// Watch registers the metrics of a host. Each scrape reads the state of the host and the groups of its containers.
func (m *Metrics) Watch(s Source, log *slog.Logger) { m.registry.MustRegister(&stateCollector{s, log}) }

// A stateCollector collects the metrics that a scrape reads from the state and the kernel.
type stateCollector struct {
	Source
	log *slog.Logger
}

var (
	readable   = desc("candor_state_readable", "1 if the state is readable. If 0, the metrics from the state are missing.")
	cpus       = desc("candor_cpus", "CPUs in each pool; each CPU of the machine is in one pool.", "pool")
	usable     = desc("candor_usable_cpu_cores", "CPUs that Candor can allocate to containers.")
	sensitive  = desc("candor_sensitive_cpu_cores", "Sum of the limits of the sensitive containers.")
	flexible   = desc("candor_flexible_cpu_cores", "Sum of the guarantees of the flexible containers.")
	shared     = desc("candor_shared_cpu_cores", "Shared time: part of the sensitive containers' limits on CPUs that are in the cpusets of several containers.")
	containers = desc("candor_containers", "Containers by class and state; a held container has ended, but its CPUs stay reserved for its pod.", "class", "state")

	degraded      = desc("candor_container_setting_degraded", "1 for each setting that the kernel refuses for a running container; the container keeps the previous value.", "namespace", "pod", "container", "class", "setting")
	limit         = containerDesc("candor_container_limit_cpu_cores", "Limit of a running container; missing without a limit.")
	visibleCPUs   = containerDesc("candor_container_cpus", "CPUs that a running container may use.")
	mismatch      = containerDesc("candor_container_view_mismatch", "1 if a running sensitive container does not see the CPUs that its limit needs, else 0; missing if Candor cannot read the view, because a process has a lease on a file of the view or the container has too many mounts.")
	memoryView    = containerDesc("candor_container_memory_view_missing", "1 if a running container does not have the files with the memory or the CPU time of its view, for example because its runtime forbids mounts over /proc/meminfo, else 0; missing without such a view, or if the container has too many mounts.")
	used          = containerDesc("candor_container_cpu_seconds_total", "CPU time that a running container has used.")
	periods       = containerDesc("candor_container_cfs_periods_total", "Periods in which a running container had a quota and runnable threads.")
	throttled     = containerDesc("candor_container_cfs_throttled_periods_total", "Periods in which a running container's quota ran out.")
	throttledTime = containerDesc("candor_container_cfs_throttled_seconds_total", "Time in which the quota throttled a running container, summed over CPUs.")
)

var descs = []*prometheus.Desc{readable, cpus, usable, sensitive, flexible, shared, containers,
	degraded, limit, visibleCPUs, mismatch, memoryView, used, periods, throttled, throttledTime}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// containerDesc describes a metric with a value for each container. A container without a pod, such as a program of candor run,
// has empty pod labels.
func containerDesc(name, help string) *prometheus.Desc {
	return desc(name, help, "namespace", "pod", "container", "class")
}

func (s *stateCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descs {
		to <- d
	}
}

func (s *stateCollector) Collect(to chan<- prometheus.Metric) {
	now, err := s.Snapshot()
	if err != nil {
		s.log.Warn("metrics: cannot read the state", "error", err)
		to <- value(readable, 0)
		return
	}
	to <- value(readable, 1)
	collectNode(now.Node, to)
	collectStates(now.Grants, to)
	collectDegraded(s.Degraded(), now.Grants, to)
	for _, c := range running(now.Grants) {
		reading, err := s.ReadUsage(c.Grant)
		switch {
		case errors.Is(err, cgroup.ErrNoGroup), errors.Is(err, fs.ErrNotExist): // the container has ended
		case err != nil:
			s.log.Warn("metrics: cannot read a container", host.LogName(c.DisplayName(), c.ID), "error", err)
		default:
			c.collect(&reading, to)
		}
	}
}

func value(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func collectNode(n *hybrid.Node, to chan<- prometheus.Metric) {
	m, pools, all := n.Machine(), n.Pools(), n.Usable()
	for pool, set := range map[string]cpuset.Set{
		"exclusive": pools.Exclusive, "fractional": pools.Fractional, "shared": pools.Shared,
		"reserved": m.Online.Minus(all), "offline": m.Offline,
	} {
		to <- value(cpus, float64(set.Count()), pool)
	}
	to <- value(usable, float64(all.Count()))
	to <- value(sensitive, cores(n.Sensitive()))
	to <- value(flexible, cores(n.Guaranteed()))
	to <- value(shared, cores(n.Shared()))
}

func cores(m hybrid.Milli) float64 { return float64(m) / 1000 }

func collectStates(grants []host.Grant, to chan<- prometheus.Metric) {
	count := map[hybrid.Class]map[state.Phase]int{hybrid.Sensitive: {}, hybrid.Flexible: {}}
	for i := range grants {
		count[grants[i].Class][grants[i].State]++
	}
	for class, states := range count {
		for _, phase := range []state.Phase{host.Pending, host.Running, host.Held} {
			to <- value(containers, float64(states[phase]), class.String(), string(phase))
		}
	}
}

// collectDegraded writes a value for each degraded setting of a running container.
func collectDegraded(all []host.Degraded, grants []host.Grant, to chan<- prometheus.Metric) {
	for _, c := range running(grants) {
		for _, d := range all {
			if d.Container == c.ID {
				to <- value(degraded, 1, c.name.Namespace, c.name.Pod, c.name.Container, c.Class.String(), string(d.Setting))
			}
		}
	}
}

// A container is a grant of a running container, with the name for its labels.
type container struct {
	*host.Grant
	name podname.Name
}

// running returns the running containers with unique labels. Of two containers with the same name in a pod, it returns only the
// later. Outside of pods, the later of two containers with the same name is labeled with its ID.
func running(grants []host.Grant) []container {
	at := map[podname.Name]int{}
	var all []container
	for i := range grants {
		g := &grants[i]
		if g.State != host.Running {
			continue
		}
		engine := host.Engine{Name: strings.ToValidUTF8(g.Engine.Name, "?")}
		c := container{g, engine.DisplayName()}
		c.name.Container = cmp.Or(c.name.Container, g.ID)
		j, twice := at[c.name]
		if twice && c.name.Pod != "" { // a pod and its successor
			all[j] = c
			continue
		}
		if twice { // two engines have containers of this name
			c.name.Container = g.ID
			if _, twice = at[c.name]; twice {
				continue
			}
		}
		at[c.name] = len(all)
		all = append(all, c)
	}
	return all
}

func (c *container) collect(r *host.LiveUsage, to chan<- prometheus.Metric) {
	g := c.Grant
	labels := []string{c.name.Namespace, c.name.Pod, c.name.Container, g.Class.String()}
	if g.Limit > 0 {
		to <- value(limit, cores(g.Limit), labels...)
	}
	to <- value(visibleCPUs, float64(r.CPUs.Count()), labels...)
	if differs, isKnown := viewMismatch(g, r); isKnown && g.Class == hybrid.Sensitive {
		to <- value(mismatch, differs, labels...)
	}
	if parts := host.LiveParts(g); parts != (view.LiveParts{}) && !r.Observation.IsHidden {
		isMissing := parts.Memory && !r.Observation.Live.Memory || parts.Stat && !r.Observation.Live.Stat
		to <- value(memoryView, map[bool]float64{true: 1}[isMissing], labels...)
	}
	count := func(d *prometheus.Desc, v float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	count(used, r.Usage.CPU.Seconds())
	count(periods, float64(r.Usage.Periods))
	count(throttled, float64(r.Usage.Throttled))
	count(throttledTime, r.Usage.ThrottledTime.Seconds())
}

// viewMismatch returns 1 if the size of the container's cpuset differs from the limit, rounded up. It also returns 1 if the container's
// view is full and the files in the container show other CPUs than the cpuset. Otherwise it returns 0. isKnown is false if the cpuset is
// right and candor cannot read the view.
func viewMismatch(g *host.Grant, r *host.LiveUsage) (differs float64, isKnown bool) {
	files, _ := r.Observation.Files() // empty if a file is neither the kernel's own nor a file of a view
	switch {
	case r.CPUs.Count() != g.Limit.CPUs():
		return 1, true
	case !g.View.HasFiles():
		return 0, true
	case r.Observation.IsHidden:
		return 0, false
	case files != r.CPUs:
		return 1, true
	default:
		return 0, true
	}
}
