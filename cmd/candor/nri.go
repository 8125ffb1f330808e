package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/publish"
	"github.com/candor-project/candor/metrics"
)

const nriLong = `Run the NRI plugin that gives the containers of containerd or CRI-O their CPUs, as
candor run does for a program.

The plugin runs until it is stopped. Sensitive containers get CPUs of their own, and
flexible containers share CPUs. Annotations of a pod set the class of its containers.
For all containers, use candor.dev/class: sensitive. For only the container web, use
class.candor.dev/web: sensitive. The configuration file sets defaults; SIGHUP reloads it.
If the plugin is killed, the containers keep their CPUs. After a restart, the plugin
adopts the running containers.

With --observe, the plugin only plans. It logs the CPUs that each container would get.
To show these CPUs, run candor ps, map or inspect with --state-dir /run/candor-observe.
The plugin changes no container, no cgroup and no file outside of /run/candor-observe.`

const nriExample = `  candor nri
  candor nri --config /etc/candor/nri.yaml --metrics 9464
  candor nri --observe --config /etc/candor/nri.yaml
  candor nri --publish --node-name node-1 --kubeconfig /etc/candor/kubeconfig
  candor config check /etc/candor/nri.yaml`

// observeDir is the state directory of candor nri --observe.
const observeDir = "/run/candor-observe"

// nriFlags are the flags of candor nri.
type nriFlags struct {
	options host.Options
	driver  choice
	config  string
	socket  string
	format  choice

	observe   bool
	giveBack  bool
	stateDir  string // value of --state-dir, or observeDir
	metrics   string // address from --metrics
	metricsAt string // address of the metrics server; "": no server
	webConfig string // file of --metrics-web-config
	webFile   string // file that the metrics server uses, from the flag or the configuration; "": none
	histogram choice // value of --record-histogram, or ""
	counts    string // shortest window of the histograms, from the flag or the configuration; "none": no histograms
	publishFlags
}

func newNRICommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "nri",
		Short:   "Run the NRI plugin that allocates CPUs on a Kubernetes node",
		Long:    nriLong,
		Example: nriExample,
		Args:    noArgs,
	}
	f := &nriFlags{format: choice{"text", []string{"text", "json"}}}
	f.driver = choice{
		cmp.Or(os.Getenv("CANDOR_CGROUP_DRIVER"), string(cgroup.Auto)),
		[]string{string(cgroup.Auto), string(cgroup.Cgroupfs), string(cgroup.Systemd)},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.observe, "observe", false, "plan only and log each grant; default state directory: "+observeDir)
	flags.BoolVar(&f.giveBack, "give-back", false, "give all containers back to the runtime, remove the state and stay idle")
	flags.StringVar(&f.config, "config", "", "configuration file (default: none; pods without annotations are flexible)")
	flags.StringVar(&f.socket, "socket", api.DefaultSocketPath, "NRI socket of the runtime")
	flags.StringVar(&f.options.StateDir, "state-dir", os.Getenv("CANDOR_STATE_DIR"), "state directory; overrides the configuration ($CANDOR_STATE_DIR)")
	flags.StringVar(&f.options.Config, "host-options", cmp.Or(os.Getenv("CANDOR_CONFIG"), host.DefaultConfig), "options file of this machine ($CANDOR_CONFIG)")
	flags.StringVar(&f.options.Cgroup.Parent, "cgroup-parent", os.Getenv("CANDOR_CGROUP_PARENT"), "parent cgroup of candor run, to manage its programs too ($CANDOR_CGROUP_PARENT)")
	wordFlag(cmd, &f.driver, f.driver.of, "cgroup-driver", "", "cgroup driver ($CANDOR_CGROUP_DRIVER)")
	wordFlag(cmd, &f.format, f.format.of, "log", "", "log format")
	flags.Func("metrics", "`ADDRESS` of metrics and health: PORT (loopback) or IP:PORT (default: none)", f.setMetrics)
	flags.StringVar(&f.webConfig, "metrics-web-config", "", "web configuration `FILE` of the metrics server: TLS and users")
	f.histogram = choice{"", nri.HistogramWords}
	wordFlag(cmd, &f.histogram, f.histogram.of, "record-histogram", "", "shortest window of the CPU-use histograms; the longer windows are recorded too")
	f.publishFlags.add(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }
	return cmd
}

// check checks the flags and loads the configuration.
func (f *nriFlags) check() (config *nri.Config, web *metrics.WebConfig, err error) {
	if f.observe && f.giveBack {
		return nil, nil, badInput("--give-back: not with --observe, which changes nothing")
	}
	if config, err = f.load(); err == nil {
		err = nri.CheckSocket(f.socket)
	}
	if err != nil {
		return nil, nil, nriError(err)
	}
	if err := f.checkHistogram(config); err != nil {
		return nil, nil, err
	}
	web, err = f.loadWebConfig(config)
	return config, web, err
}

// run sets up the plugin and runs it until SIGTERM or SIGINT.
func (f *nriFlags) run(cmd *cobra.Command) error {
	// The plugin listens to SIGHUP first, because a SIGHUP during the start would otherwise end the plugin.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	config, web, err := f.check()
	if err != nil {
		return err
	}
	log := f.newLog(cmd.ErrOrStderr())
	if err := f.checkKubelet(log); err != nil {
		return nriError(err)
	}
	counted := metrics.New(versionString())
	if err := f.preparePublishing(config, counted, log); err != nil {
		return nriError(err)
	}
	f.setHostOptions(cmd, config, log, counted)
	h, err := host.Open(f.options)
	if err != nil {
		return &exitError{exitBadInput, err}
	}
	defer h.Close()
	if err := h.CheckPlanOnly(); err != nil {
		return hostError(err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	counted.Watch(h, log)
	// The server starts before applyOptions: if the address is in use, nothing has changed.
	if f.metricsAt = cmp.Or(f.metrics, config.Metrics); f.metricsAt != "" {
		if err := counted.Serve(ctx, f.metricsAt, web, log); err != nil {
			return &exitError{exitBadInput, err}
		}
	}
	if f.giveBack {
		return f.runGiveBack(ctx, h, counted)
	}
	// HoldAgent comes before the first operation, because it cancels an interrupted give-back, during which operations fail.
	release, err := h.HoldAgent()
	if err != nil {
		return hostError(err)
	}
	defer release()
	if err := f.applyOptions(h, config, log); err != nil {
		return hostError(err)
	}
	if err := h.Claim(); err != nil {
		return hostError(err)
	}
	return f.serve(ctx, hup, h, config, counted)
}

// serve runs the plugin after its setup.
func (f *nriFlags) serve(ctx context.Context, hup <-chan os.Signal, h *host.Host, config *nri.Config, counted *metrics.Metrics) error {
	log := f.options.Log
	engine := nri.NewEngine(h, config, log)
	engine.CountBy(counted)
	engine.OnNode(f.node)
	if f.publisher != nil {
		engine.RecordEvents(f.publisher.Events())
	}
	if f.observe {
		engine.Observe()
		counted.Observing()
		log.Info("observing: nothing is changed; candor ps --state-dir shows the plan", "state", f.options.StateDir)
	}
	staySmall()
	go f.reloadLoop(ctx, hup, h, engine, log)
	f.startPublishing(ctx, h, engine)
	f.startHistogram(ctx, h, counted)
	go trimAtTimes(ctx, log)
	defer f.raiseQuotas(ctx, h, log)()
	return engine.Run(ctx, f.socket, func() {
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	})
}

// windows returns the shortest window of the histograms, or "none".
func (f *nriFlags) windows(config *nri.Config) string {
	return cmp.Or(f.histogram.value, config.Histogram, "none")
}

// checkHistogram checks the window of the histograms, and refuses histograms without a metrics server.
func (f *nriFlags) checkHistogram(config *nri.Config) error {
	if f.counts = f.windows(config); f.counts == "none" || cmp.Or(f.metrics, config.Metrics) != "" {
		return nil
	}
	if f.histogram.value == "" {
		return badInput("%s: recordHistogram %s: needs the metrics endpoint: add metrics: ADDRESS", f.config, f.counts)
	}
	return badInput("--record-histogram %s: needs the metrics endpoint: add --metrics ADDRESS", f.counts)
}

// loadWebConfig reads the web configuration of the metrics server, if it is configured.
func (f *nriFlags) loadWebConfig(config *nri.Config) (*metrics.WebConfig, error) {
	f.webFile = cmp.Or(f.webConfig, config.WebConfig)
	isServed := cmp.Or(f.metrics, config.Metrics) != ""
	switch {
	case f.webFile == "":
		return nil, nil
	case !isServed && f.webConfig != "":
		return nil, badInput("--metrics-web-config %s: needs the metrics endpoint: add --metrics ADDRESS", f.webConfig)
	case !isServed:
		return nil, badInput("%s: metricsWebConfig %s: needs the metrics endpoint: add metrics: ADDRESS", f.config, f.webFile)
	}
	web, err := metrics.LoadWebConfig(f.webFile)
	if err != nil {
		return nil, &exitError{exitBadInput, err}
	}
	return web, nil
}

// startHistogram starts the histograms of CPU use in short windows, if they are configured.
func (f *nriFlags) startHistogram(ctx context.Context, h *host.Host, counted *metrics.Metrics) {
	if finest, err := time.ParseDuration(f.counts); err == nil {
		go counted.Histogram(finest, metrics.Usages{Host: h}, f.options.Log).Run(ctx)
	}
}

// raiseQuotas starts a goroutine that raises the quotas of the runtime's containers with a burst, until ctx is done. wait waits
// until the goroutine has ended.
func (f *nriFlags) raiseQuotas(ctx context.Context, h *host.Host, log *slog.Logger) (wait func()) {
	if f.observe {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := h.RaiseQuotas(ctx, func(g *host.Grant) bool { return g.Engine.Pod != "" }); err != nil {
			log.Error("burst driver stopped", "error", err)
		}
	}()
	return func() { <-ended }
}

func (f *nriFlags) newLog(out io.Writer) *slog.Logger {
	if f.format.value == "json" {
		return slog.New(slog.NewJSONHandler(out, nil))
	}
	return slog.New(slog.NewTextHandler(out, nil))
}

// checkKubelet returns an error if the kubelet's CPU manager allocates CPUs itself. With --observe it only logs the
// error.
func (f *nriFlags) checkKubelet(log *slog.Logger) error {
	unclear, err := nri.CheckKubelet("/")
	if unclear != nil {
		log.Warn("cannot read the policy of the kubelet's CPU manager: must be none", "reason", unclear)
	}
	if err != nil && f.observe {
		log.Warn("would refuse to start", "reason", err)
		return nil
	}
	if f.giveBack { // during a give-back, the kubelet can manage the CPUs already
		return nil
	}
	if err != nil {
		log.Error("refused to start", "reason", err)
	}
	return err
}

// setHostOptions sets the options of the host. With --observe, the default state directory is observeDir.
func (f *nriFlags) setHostOptions(cmd *cobra.Command, config *nri.Config, log *slog.Logger, counted *metrics.Metrics) {
	f.options.Log, f.options.LockTimeout, f.options.OnOperation = log, nri.Patience, collecting(f.reports(counted.Operation))
	f.options.Cgroup.Driver = cgroup.Driver(f.driver.value)
	f.options.DeferUnitUpdates, f.options.HoldViews = true, true
	f.options.Cgroup.ReadOnly = true // the plugin creates no groups, and does not need the right to do so
	f.stateDir = f.options.StateDir
	if f.options.PlanOnly = f.observe; f.observe && !cmd.Flags().Changed("state-dir") {
		f.stateDir = observeDir
	}
	f.options.StateDir = cmp.Or(f.stateDir, config.StateDir)
}

func (f *nriFlags) setMetrics(s string) (err error) {
	f.metrics, err = metrics.Address(s)
	return err
}

// nriError returns err with the exit code for bad input if the caller caused the error.
func nriError(err error) error {
	if isOneOf(err, nri.ErrBadConfig, nri.ErrBadSocket, nri.ErrOtherManager, publish.ErrBadOptions) {
		return &exitError{exitBadInput, err}
	}
	return err
}

func (f *nriFlags) load() (*nri.Config, error) {
	if f.config == "" {
		return nri.DefaultConfig(), nil
	}
	return nri.LoadConfig(f.config)
}

// applyOptions writes the machine options of the configuration to the options file, because all frontends must use
// the same options.
func (f *nriFlags) applyOptions(h *host.Host, c *nri.Config, log *slog.Logger) error {
	now, err := host.LoadOptions(f.options.Config)
	if err != nil {
		return err
	}
	next := c.Over(now)
	if f.config == "" {
		next = now
	}
	if next == now && !f.observe { // with --observe, the plan has its own options file
		return nil
	}
	if err := h.SetOptions(next); err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(f.config, f.options.Config), err) // names the file with the refused options
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
		return fmt.Errorf("%s: stateDir %q: the plugin runs with %q: restart it for another",
			f.config, config.StateDir, cmp.Or(now, host.DefaultStateDir()))
	}
	if at := cmp.Or(f.metrics, config.Metrics); at != f.metricsAt {
		return fmt.Errorf("%s: metrics %q: the plugin serves them at %q: restart it for another", f.config, at, f.metricsAt)
	}
	if file := cmp.Or(f.webConfig, config.WebConfig); file != f.webFile {
		return fmt.Errorf("%s: metricsWebConfig %q: the plugin uses %q; restart it for another", f.config, file, f.webFile)
	}
	if windows := f.windows(config); windows != f.counts {
		return fmt.Errorf("%s: recordHistogram %s: the plugin counts %s: restart it for another", f.config, windows, f.counts)
	}
	if f.wants(config) != (f.publisher != nil) {
		return fmt.Errorf("%s: publish %v: the plugin runs with %v: restart it for another", f.config, config.Publish, f.publisher != nil)
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
			log.Error("configuration rejected", "error", err)
			continue
		}
		log.Info("configuration reloaded", "file", f.config)
		if err := engine.Repair(ctx); err != nil {
			log.Error("repair", "error", err)
		}
	}
}

// publishFlags are the flags of candor nri for its reports to the API server.
type publishFlags struct {
	publish    bool
	node       string
	kubeconfig string

	publisher *publish.Publisher // nil: no report is published
}

func (f *publishFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.publish, "publish", false, "report the node as a NodeCPU object and Events (or \"publish: true\" in --config)")
	flags.StringVar(&f.node, "node-name", os.Getenv("NODE_NAME"), "node name in the cluster, for --publish and scheduler hints ($NODE_NAME)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig for --publish (default: $KUBECONFIG, or the pod's account)")
}

// wants reports whether the node publishes its report.
func (f *publishFlags) wants(config *nri.Config) bool { return f.publish || config.Publish }

// preparePublishing checks the options of the publisher, if publishing is enabled. It sends no request.
func (f *nriFlags) preparePublishing(config *nri.Config, counted *metrics.Metrics, log *slog.Logger) (err error) {
	if !f.wants(config) {
		return nil
	}
	if f.observe {
		return fmt.Errorf("%w: not with --observe: it would publish a plan as the actual state", publish.ErrBadOptions)
	}
	f.publisher, err = publish.New(publish.Options{
		Node: f.node, Kubeconfig: f.kubeconfig, Version: versionString(), Log: log, OnReport: counted,
	})
	return err
}

// reports returns the callback for the report of each operation. The callback calls counted and, if publishing is enabled,
// notifies the publisher.
func (f *publishFlags) reports(counted func(host.Report)) func(host.Report) {
	if f.publisher == nil {
		return counted
	}
	return func(r host.Report) {
		counted(r)
		f.publisher.Changed()
		f.publisher.RecordRepairs(&r)
	}
}

// startPublishing starts a goroutine that publishes reports, if publishing is enabled.
func (f *publishFlags) startPublishing(ctx context.Context, h *host.Host, engine *nri.Engine) {
	if f.publisher != nil {
		go f.publisher.Run(ctx, publish.ReportOf(publish.WatchViews(h, f.publisher.Events()), engine.Policy))
	}
}
