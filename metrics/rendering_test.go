package metrics

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// largeCollector collects a megabyte of metrics.
type largeCollector struct{ desc *prometheus.Desc }

func newLargeCollector() *largeCollector {
	return &largeCollector{prometheus.NewDesc("large", "Many series.", []string{"number", "filler"}, nil)}
}

func (c *largeCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }
func (c *largeCollector) Collect(to chan<- prometheus.Metric) {
	filler := strings.Repeat("x", 1000)
	for i := range 1000 {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(i), fmt.Sprint(i), filler)
	}
}

// fakeGatherer counts its calls and returns the count as a metric.
type fakeGatherer struct {
	calls atomic.Int64
	takes time.Duration
	err   error
}

func (g *fakeGatherer) Gather() ([]*dto.MetricFamily, error) {
	n := float64(g.calls.Add(1))
	time.Sleep(g.takes)
	if g.err != nil {
		return nil, g.err
	}
	name, kind := "calls", dto.MetricType_GAUGE
	return []*dto.MetricFamily{{Name: &name, Type: &kind, Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: &n}}}}}, nil
}

func newTestRenderer(g prometheus.Gatherer) *renderer {
	return &renderer{gatherer: g, log: slog.New(slog.DiscardHandler)}
}

// scrapeRenderer sends a scrape to a renderer and returns the response.
func scrapeRenderer(r *renderer, encodings ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header["Accept-Encoding"] = encodings
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request)
	return w
}

// awaitRest waits until the pause after the last rendering has ended.
func (r *renderer) awaitRest(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		running := r.running
		r.mu.Unlock()
		if !running {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the pause does not end")
		}
	}
}

// TestSharedRendering: concurrent scrapes share a rendering.
func TestSharedRendering(t *testing.T) {
	g := &fakeGatherer{takes: 50 * time.Millisecond}
	r := newTestRenderer(g)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if w := scrapeRenderer(r); w.Code != http.StatusOK {
				t.Errorf("code %d", w.Code)
			}
		})
	}
	all.Wait()
	if n := g.calls.Load(); n > 3 {
		t.Errorf("%d renderings for 100 scrapes at the same time", n)
	}
}

// TestFreshRendering: without a flood, a rendering starts after the scrape that it answers.
func TestFreshRendering(t *testing.T) {
	g := &fakeGatherer{takes: 5 * time.Millisecond}
	r := newTestRenderer(g)
	var all sync.WaitGroup
	for range flood - 1 {
		all.Go(func() {
			for range 10 {
				before := g.calls.Load()
				var n int64
				body := scrapeRenderer(r).Body.String()
				if _, err := fmt.Sscanf(body, "# TYPE calls gauge\ncalls %d\n", &n); err != nil || n <= before {
					t.Errorf("after %d calls: %q, %v", before, body, err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
}

// TestSequentialScrapes: without a flood, each scrape gets a new rendering.
func TestSequentialScrapes(t *testing.T) {
	g := &fakeGatherer{}
	r := newTestRenderer(g)
	for i := range 20 {
		if got, want := scrapeRenderer(r).Body.String(), fmt.Sprintf("# TYPE calls gauge\ncalls %d\n", i+1); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// TestRenderingTimeBound: rendering takes at most a fifth of the time, for any number of scrapes.
func TestRenderingTimeBound(t *testing.T) {
	g := &fakeGatherer{takes: 10 * time.Millisecond}
	r := newTestRenderer(g)
	var all sync.WaitGroup
	end := time.Now().Add(time.Second)
	for range 20 {
		all.Go(func() {
			for time.Now().Before(end) {
				scrapeRenderer(r)
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
	if n := g.calls.Load(); n > 22 {
		t.Errorf("%d renderings of 10 ms in a second", n)
	}
}

// TestFloodGetsLastRendering: in a flood, a scrape gets the last rendering at once. After the pause it gets a
// new rendering.
func TestFloodGetsLastRendering(t *testing.T) {
	g := &fakeGatherer{takes: maxRest / 4} // the pause after it takes maxRest
	r := newTestRenderer(g)
	var all sync.WaitGroup
	all.Go(func() { scrapeRenderer(r) })
	for g.calls.Load() == 0 { // the next scrapes then wait for the same rendering, which counts as a flood
		time.Sleep(time.Millisecond)
	}
	for range 2 * flood {
		all.Go(func() { scrapeRenderer(r) })
	}
	all.Wait()
	calls := g.calls.Load()
	if scrapeRenderer(r); g.calls.Load() != calls {
		t.Error("a scrape in a flood waits for another rendering")
	}
	r.awaitRest(t)
	if scrapeRenderer(r); g.calls.Load() != calls+1 {
		t.Error("the last rendering is used after the flood")
	}
}

func TestRenderingFails(t *testing.T) {
	r := newTestRenderer(&fakeGatherer{err: errors.New("no metrics")})
	if w := scrapeRenderer(r); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "no metrics") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	late := newTestRenderer(&fakeGatherer{takes: time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	late.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("a late rendering: %d %s", w.Code, w.Body)
	}
}

func TestEncodings(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 18 s under the race detector")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newLargeCollector())
	r := newTestRenderer(registry)
	plain := scrapeRenderer(r)
	if n := plain.Body.Len(); n < 1e6 || plain.Header().Get("Content-Length") != fmt.Sprint(n) || plain.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%d bytes with %v", n, plain.Header())
	}
	for encodings, zipped := range map[string]bool{
		"": false, "gzip": true, "deflate, GZIP;q=0.5": true, "gzip;q=0": false, "gzip;q=0.000": false, "identity": false, "gzip; q=1": true,
		"br, zstd": false, "gzip;q=x": false, "xgzip": false, "*": false, strings.Repeat("x,", 4000) + "gzip": true,
	} {
		w := scrapeRenderer(r, encodings)
		text := io.Reader(w.Body)
		if (w.Header().Get("Content-Encoding") == "gzip") != zipped {
			t.Errorf("%.40q: %v", encodings, w.Header())
			continue
		}
		if zipped {
			if n := w.Body.Len(); n > plain.Body.Len()/10 || w.Header().Get("Content-Length") != fmt.Sprint(n) {
				t.Errorf("%.40q: %d bytes with %v", encodings, n, w.Header())
			}
			unzipped, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			text = unzipped
		}
		if got, err := io.ReadAll(text); err != nil || !bytes.Equal(got, plain.Body.Bytes()) {
			t.Errorf("%.40q: the text differs from the plain text, %v", encodings, err)
		}
	}
}
