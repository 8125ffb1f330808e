package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/kube/publish"
	"github.com/candor-project/candor/metrics"
)

// publishFlags are those flags of candor nri that are about the API server.
type publishFlags struct {
	publish    bool
	node       string
	kubeconfig string

	publisher *publish.Publisher // nil: no report is published
}

func (f *publishFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.publish, "publish", false, "publish the node's NodeCPU object; same as publish: true")
	flags.StringVar(&f.node, "node-name", os.Getenv("NODE_NAME"), "node name in the cluster, for --publish and for hints ($NODE_NAME)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig for --publish (default: the pod's account; $KUBECONFIG)")
}

// wants reports whether the node publishes its report.
func (f *publishFlags) wants(config *nri.Config) bool { return f.publish || config.Publish }

// preparePublishing checks the options of the publisher, if publishing is enabled. It sends no request.
func (f *nriFlags) preparePublishing(config *nri.Config, counted *metrics.Metrics, log *slog.Logger) (err error) {
	if !f.wants(config) {
		return nil
	}
	if f.observe {
		return fmt.Errorf("%w: not with --observe: a plan would be taken for what is", publish.ErrBadOptions)
	}
	f.publisher, err = publish.New(publish.Options{
		Node: f.node, Kubeconfig: f.kubeconfig, Version: versionString(), Log: log, OnReport: counted,
	})
	return err
}

// reports returns the callback for operations, which includes the publisher if publishing is enabled.
func (f *publishFlags) reports(counted func(host.Report)) func(host.Report) {
	if f.publisher == nil {
		return counted
	}
	return func(r host.Report) {
		counted(r)
		f.publisher.Changed()
	}
}

// startPublishing publishes from now on, in a goroutine of its own.
func (f *publishFlags) startPublishing(ctx context.Context, h *host.Host, engine *nri.Engine) {
	if f.publisher != nil {
		go f.publisher.Run(ctx, publish.ReportOf(h.Snapshot, engine.Policy))
	}
}
