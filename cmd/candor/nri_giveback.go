package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/kube/publish"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/metrics"
)

// giveBackPause is the time between two attempts to give all containers back.
const giveBackPause = 5 * time.Second

// runGiveBack gives all containers back to the runtime. It reports the progress in the metrics and, if publishing is enabled, in
// the node's NodeCPU object. Then it stays idle until ctx is done. The plugin is not connected to the runtime, so new containers
// start without Candor.
func (f *nriFlags) runGiveBack(ctx context.Context, h *host.Host, counted *metrics.Metrics) error {
	log := f.options.Log
	var phase atomic.Value
	phase.Store(v1alpha1.GivingBack)
	if f.publisher != nil {
		report := publish.ReportOf(h, func() hybrid.Policy { return hybrid.Strict })
		go f.publisher.Run(ctx, report.WithPhase(func() string { return phase.Load().(string) }))
	}
	for {
		err := f.giveBackAll(ctx, h)
		if err == nil {
			break
		}
		log.Warn("cannot give all containers back yet", "reason", err, "next", giveBackPause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(giveBackPause):
		}
	}
	phase.Store(v1alpha1.GivenBack)
	if f.publisher != nil {
		f.publisher.Changed()
	}
	counted.GivenBack()
	log.Info("all containers are given back: the agent is idle and can be removed")
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	<-ctx.Done()
	return nil
}

// giveBackAll makes one attempt to give all containers back. It fails while the predecessor of this agent runs.
func (f *nriFlags) giveBackAll(ctx context.Context, h *host.Host) error {
	b, err := h.StartGiveBack(false)
	if err != nil {
		return err
	}
	defer b.Close()
	result, err := b.Try(ctx)
	for _, c := range result.Changes {
		f.options.Log.Info("given back", host.LogName(c.Container, c.ID), "setting", c.Setting, "before", c.Before, "after", c.After)
	}
	return errline.Join(err, result.Waiting)
}
