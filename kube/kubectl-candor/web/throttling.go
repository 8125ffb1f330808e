package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// throttledQuery is the share of the periods in which the quota throttled a container, by node. The ServiceMonitor of the chart
// sets the label instance to the name of the node.
const throttledQuery = `sum by (instance) (rate(candor_container_cfs_throttled_periods_total[5m])) / (sum by (instance) (rate(candor_container_cfs_periods_total[5m])) > 0)`

const (
	throttlingAge     = 30 * time.Second // time for which an answer of Prometheus serves all browsers
	prometheusTimeout = 20 * time.Second
	maxAnswer         = 16 << 20 // bytes of an answer of Prometheus
)

// A throttling reads the throttling of the nodes from Prometheus. It is safe for concurrent use.
type throttling struct {
	address *url.URL // of Prometheus; nil: not configured
	client  *http.Client

	mu     sync.Mutex // held during the query: browsers at the same time share it
	shares map[string]float64
	at     time.Time
}

// read returns the throttled share of the periods by node, from 0 to 1.
func (t *throttling) read(ctx context.Context) (map[string]float64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shares != nil && time.Since(t.at) < throttlingAge {
		return t.shares, nil
	}
	shares, err := t.query(ctx)
	if err != nil {
		return nil, fmt.Errorf("Prometheus %s: %w", t.address.Redacted(), err)
	}
	t.shares, t.at = shares, time.Now()
	return shares, nil
}

func (t *throttling) query(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, prometheusTimeout)
	defer cancel()
	at := t.address.JoinPath("api/v1/query")
	at.RawQuery = url.Values{"query": {throttledQuery}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := t.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric struct{ Instance string }
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("status %d: the answer is none of Prometheus: %w", response.StatusCode, err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("status %d: %.200s", response.StatusCode, answer.Error)
	}
	shares := map[string]float64{}
	for _, v := range answer.Data.Result {
		text, _ := v.Value[1].(string)
		if share, err := strconv.ParseFloat(text, 64); err == nil && share >= 0 { // NaN is no number
			shares[v.Metric.Instance] = min(share, 1)
		}
	}
	return shares, nil
}
