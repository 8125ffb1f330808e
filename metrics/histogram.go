package metrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
)

// A UsageSource opens the CPU counters of containers for frequent reads. Usages implements it.
type UsageSource interface {
	Snapshot() (*host.Snapshot, error)
	OpenUsage(*host.Grant) (Usage, error)
}

// A Usage reads the CPU use of a container. After the container's end, Read returns fs.ErrNotExist.
type Usage interface {
	Read() (cgroup.Usage, error)
	Close()
}

// Usages implements UsageSource for a host.
type Usages struct{ *host.Host }

// OpenUsage opens a container's group.
func (u Usages) OpenUsage(g *host.Grant) (Usage, error) { return u.Host.OpenUsage(g) }

// HistogramWindows are the possible window lengths. The caller of Histogram selects the shortest; all longer lengths are used
// too.
var HistogramWindows = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second}

const (
	maxHistograms  = 256             // maximum number of containers; each has up to 81 series
	lookupInterval = 5 * time.Second // time between two searches for new containers
)

// useBuckets and throttledBuckets are upper bounds of buckets, in CPUs.
var (
	useBuckets       = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50}
	throttledBuckets = []float64{0, .01, .1, .2, .5, 1, 2, 5, 10}
)

// Histograms read the CPU use of containers in short windows and count the windows by their use.
type Histograms struct {
	source     UsageSource
	log        *slog.Logger
	windows    []time.Duration
	use        *prometheus.HistogramVec
	throttled  *prometheus.HistogramVec
	late       prometheus.Counter
	unrecorded prometheus.Gauge
	containers map[string]*sampledContainer // by the ids of containers
	lastError  string                       // why the state could not be read
}

// A sampledContainer is a container with histograms.
type sampledContainer struct {
	Usage
	name   string // for the log
	labels []string
	series []*series
}

// A series belongs to a container and a window length. It holds the start of the current window, and the two histograms that count the
// windows of this length.
type series struct {
	length, slack  time.Duration
	start          time.Duration
	startUsage     cgroup.Usage
	use, throttled prometheus.Observer
}

// Histogram registers histograms of the CPU use of containers in windows of the length finest and of all longer lengths in
// HistogramWindows. Run fills them.
func (m *Metrics) Histogram(finest time.Duration, from UsageSource, log *slog.Logger) *Histograms {
	labels := []string{"namespace", "pod", "container", "class", "window"}
	h := &Histograms{
		source: from, log: log, containers: map[string]*sampledContainer{},
		use: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "candor_container_use_cpu_cores", Buckets: useBuckets,
			Help: "Time windows, counted by the mean number of CPUs that a running container used in the window; only with --record-histogram.",
		}, labels),
		throttled: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "candor_container_throttled_cpu_cores", Buckets: throttledBuckets,
			Help: "Time windows, counted by the mean number of a running container's CPUs that were throttled in the window; only with --record-histogram.",
		}, labels),
		late:       counter("candor_late_windows_total", "Windows that ended too late for a histogram."),
		unrecorded: gauge("candor_windows_containers_left_out", fmt.Sprintf("Running containers beyond the first %d, which have no histograms.", maxHistograms)),
	}
	for _, w := range HistogramWindows {
		if w >= finest {
			h.windows = append(h.windows, w)
		}
	}
	m.registry.MustRegister(h.use, h.throttled, h.late, h.unrecorded)
	return h
}

// Run reads until ctx is done.
func (h *Histograms) Run(ctx context.Context) {
	defer h.close()
	began := time.Now()
	ticker := time.NewTicker(h.windows[0])
	defer ticker.Stop()
	for next := time.Duration(0); ; {
		now := time.Since(began)
		if now >= next {
			h.updateContainers(now)
			next = now + lookupInterval
		}
		h.sample(now)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (h *Histograms) close() {
	for id := range h.containers {
		h.removeContainer(id)
	}
}

// updateContainers finds the running containers: it adds new containers and deletes the series of ended containers.
func (h *Histograms) updateContainers(now time.Duration) {
	s, err := h.source.Snapshot()
	if err != nil {
		if h.lastError != err.Error() {
			h.lastError = err.Error()
			h.log.Warn("histograms: cannot read the state; new containers are not recorded", "error", err)
		}
		return
	}
	h.lastError = ""
	all, isRunning := running(s.Grants), map[string]bool{}
	for _, c := range all {
		isRunning[c.ID] = true
	}
	for id := range h.containers { // first: a new container can have the name of an ended container
		if !isRunning[id] {
			h.removeContainer(id)
		}
	}
	unrecorded := 0
	for _, c := range all {
		switch {
		case h.containers[c.ID] != nil:
		case len(h.containers) == maxHistograms:
			unrecorded++
		default:
			if err := h.addContainer(c, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
				h.log.Warn("histograms: cannot read a container", host.LogName(c.DisplayName(), c.ID), "error", err)
			}
		}
	}
	h.unrecorded.Set(float64(unrecorded))
}

// addContainer starts the histograms of a container.
func (h *Histograms) addContainer(c container, now time.Duration) error {
	labels := []string{c.name.Namespace, c.name.Pod, c.name.Container, c.Class.String()}
	usage, err := h.source.OpenUsage(c.Grant)
	if err != nil {
		return err
	}
	first, err := usage.Read()
	if err != nil {
		usage.Close()
		return err
	}
	added := &sampledContainer{Usage: usage, name: c.DisplayName(), labels: labels}
	for _, w := range h.windows {
		all := added.windowLabels(w)
		added.series = append(added.series, &series{w, h.windows[0] / 2, now, first, h.use.WithLabelValues(all...), h.throttled.WithLabelValues(all...)})
	}
	h.containers[c.ID] = added
	return nil
}

func (s *sampledContainer) windowLabels(window time.Duration) []string {
	return append(slices.Clone(s.labels), window.String())
}

// removeContainer forgets a container, and its series.
func (h *Histograms) removeContainer(id string) {
	removed := h.containers[id]
	removed.Close()
	delete(h.containers, id)
	for _, s := range removed.series {
		all := removed.windowLabels(s.length)
		h.use.DeleteLabelValues(all...)
		h.throttled.DeleteLabelValues(all...)
	}
}

// sample reads all containers, and counts the windows that end now.
func (h *Histograms) sample(now time.Duration) {
	for id, c := range h.containers {
		u, err := c.Read()
		if errors.Is(err, fs.ErrNotExist) {
			h.removeContainer(id)
			continue
		}
		if err != nil {
			h.log.Warn("histograms: cannot read a container that was read before", host.LogName(c.name, id), "error", err)
			h.removeContainer(id)
			continue
		}
		for _, s := range c.series {
			s.add(now, &u, h.late)
		}
	}
}

// add ends the present window at the read that is nearest to the window's end. If the window lasted more than 1.5 times its length, add
// counts it with the counter late instead of in the histograms, because the use within the length is unknown.
func (s *series) add(now time.Duration, u *cgroup.Usage, late prometheus.Counter) {
	took := now - s.start
	if took < s.length-s.slack {
		return
	}
	if took <= s.length+s.length/2 {
		s.use.Observe(float64(u.CPU-s.startUsage.CPU) / float64(took))
		s.throttled.Observe(float64(u.ThrottledTime-s.startUsage.ThrottledTime) / float64(took))
	} else {
		late.Inc()
	}
	s.start, s.startUsage = now, *u
}
