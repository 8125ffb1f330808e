package nri

import (
	"errors"
	"fmt"
	"testing"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/metrics"
)

func TestRefusalReason(t *testing.T) {
	good, bad := &Pod{}, &Pod{Annotations: map[string]string{"candor.dev/class": "sensitve"}}
	for _, test := range []struct {
		pod  *Pod
		cpus string
		err  error
		want metrics.Reason
	}{
		{good, "", fmt.Errorf("container web: %w", &hybrid.Refusal{Kind: hybrid.ErrNoCapacity}), metrics.NoCapacity},
		{good, "", &hybrid.Refusal{Kind: hybrid.ErrViewImpossible}, metrics.ViewImpossible},
		{good, "", &hybrid.Refusal{Kind: hybrid.ErrIDTaken}, metrics.NameTaken},
		{good, "", fmt.Errorf("%w: limit", host.ErrBadSpec), metrics.BadRequest},
		{bad, "", errors.New("annotation"), metrics.BadAnnotation},
		{bad, "0-1", errors.New("annotation"), metrics.BadAnnotation},
		{good, "0-1", errors.New("somebody else"), metrics.OthersCPUs},
		{good, "", errors.New("disk full"), metrics.Other},
	} {
		if got := refusalReason(test.pod, &Container{CPUs: test.cpus}, test.err); got != test.want {
			t.Errorf("%v with CPUs %q: %s, want %s", test.err, test.cpus, got, test.want)
		}
	}
}

func TestDowngradeReason(t *testing.T) {
	for cpu, want := range map[CPU]metrics.Reason{
		{}:                            metrics.NoLimit,
		{Quota: -1, Shares: 1024}:     metrics.NoLimit,
		{Quota: 100000, Shares: 512}:  metrics.RequestNotLimit,
		{Quota: 100000, Shares: 2048}: metrics.RequestNotLimit,
	} {
		if got := downgradeReason(&cpu); got != want {
			t.Errorf("%+v: %s, want %s", cpu, got, want)
		}
	}
}

// TestMetricsInConfig: the metrics address in the configuration has the format and the default host of the
// flag.
func TestMetricsInConfig(t *testing.T) {
	c, err := LoadConfig(write(t, "version: 1\nmetrics: 9464\n"))
	if err != nil || c.Metrics != "127.0.0.1:9464" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := LoadConfig(write(t, "version: 1\nmetrics: everywhere\n")); !errors.Is(err, ErrBadConfig) {
		t.Errorf("everywhere: %v", err)
	}
}
