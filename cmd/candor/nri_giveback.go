package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/publish"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/metrics"
)

// giveBackPause is the time between two attempts to give all containers back.
const giveBackPause = 5 * time.Second

// runGiveBack gives all containers back to the runtime, reports it and stays idle until ctx is done. The plugin is not
// connected to the runtime, so new containers start without Candor.
func (f *nriFlags) runGiveBack(ctx context.Context, h *host.Host, counted *metrics.Metrics) error {
	log := f.options.Log
	var done atomic.Bool
	if f.publisher != nil {
		phase := func() string {
			if done.Load() {
				return v1alpha1.GivenBack
			}
			return ""
		}
		report := publish.ReportOf(h, func() hybrid.Policy { return hybrid.Strict })
		go f.publisher.Run(ctx, report.WithPhase(phase))
	}
	for {
		err := h.CheckNoAgent() // the predecessor of this agent
		if err == nil {
			var changes []host.SettingChange
			changes, err = h.GiveBack(ctx, false)
			for _, c := range changes {
				log.Info("given back", "container", c.Container, "setting", c.Setting, "before", c.Before, "after", c.After)
			}
		}
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
	done.Store(true)
	if f.publisher != nil {
		f.publisher.Changed()
	}
	counted.GivenBack()
	log.Info("all containers are given back: the agent is idle and can be removed")
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	<-ctx.Done()
	return nil
}
