package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

func (f *nriFlags) load() (*nri.Config, error) {
	if f.config == "" {
		return nri.DefaultConfig(), nil
	}
	return nri.LoadConfig(f.config)
}

// applyOptions gives the machine the options that the configuration has for it: every front
// has to go by the same.
func (f *nriFlags) applyOptions(h *host.Host, c *nri.Config, log *slog.Logger) error {
	now, err := host.LoadOptions(f.options.Config)
	if err != nil {
		return err
	}
	next := c.Over(now)
	if f.config == "" {
		next = now
	}
	if next == now && !f.observe { // a plan has its own options file
		return nil
	}
	if err := h.SetOptions(next); err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(f.config, f.options.Config), err) // the file with the options
	}
	if f.observe {
		return nil
	}
	log.Info("machine options changed", "file", f.options.Config, "reserved", next.Reserved, "minShared", hybrid.Milli(next.MinShared))
	return nil
}

// reload reads the configuration again. On an error, the previous configuration stays in force.
func (f *nriFlags) reload(h *host.Host, engine *nri.Engine, log *slog.Logger) error {
	config, err := f.load()
	if err != nil {
		return err
	}
	if now := f.options.StateDir; cmp.Or(f.stateDir, config.StateDir) != now {
		return fmt.Errorf("%s: stateDir %q: the plugin runs with %q: want it started anew for another",
			f.config, config.StateDir, cmp.Or(now, host.DefaultStateDir()))
	}
	if at := cmp.Or(f.metrics, config.Metrics); at != f.metricsAt {
		return fmt.Errorf("%s: metrics %q: the plugin serves them at %q: want it started anew for another", f.config, at, f.metricsAt)
	}
	if file := cmp.Or(f.webConfig, config.WebConfig); file != f.webFile {
		return fmt.Errorf("%s: metricsWebConfig %q: the plugin uses %q; restart it for another", f.config, file, f.webFile)
	}
	if windows := f.windows(config); windows != f.counts {
		return fmt.Errorf("%s: recordHistogram %s: the plugin counts %s: want it started anew for another", f.config, windows, f.counts)
	}
	if f.wants(config) != (f.publisher != nil) {
		return fmt.Errorf("%s: publish %v: the plugin does otherwise: want it started anew", f.config, config.Publish)
	}
	if err := f.applyOptions(h, config, log); err != nil {
		return err
	}
	engine.SetConfig(config)
	return nil
}

// reloadLoop reloads the configuration at each SIGHUP and applies it.
func (f *nriFlags) reloadLoop(ctx context.Context, hup <-chan os.Signal, h *host.Host, engine *nri.Engine, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		if err := f.reload(h, engine, log); err != nil {
			log.Error("configuration not taken", "error", err)
			continue
		}
		log.Info("configuration taken", "file", f.config)
		if err := engine.Repair(ctx); err != nil {
			log.Error("repair", "error", err)
		}
	}
}
