package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/ledger"
	"github.com/candor-project/candor/metrics"
)

const ledgerAgentLong = `Measure the CPU time of helpers and serve the totals as Prometheus metrics until SIGTERM.
A helper is a process outside of a container that works for it, such as the container's
shim. The agent must run as user 0 in the PID namespace of the host. It needs no
capabilities other than CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE.

Without --charge, the agent changes nothing. With --charge, it counts the CPU time of
helpers against the limits of the containers with the setting helpers=charge (candor run
--helpers charge, annotation candor.dev/helpers, or option helpers in host.json). For
this purpose, the agent lowers the quota of such a container. On cgroup v1, the agent
also freezes the container for up to a second at a time if the container and its helpers
exceed the limit even with the kernel's lowest quota, 1 ms.`

// ledgerAgentFlags are the flags of candor ledger agent.
type ledgerAgentFlags struct {
	address   string
	webConfig string
	interval  time.Duration
	charge    bool
	machine   *hostFlags
	softirq   *bool
}

func newLedgerAgentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "Measure the helpers and serve metrics",
		Long:    ledgerAgentLong,
		Example: "  candor ledger agent --metrics 9465\n  curl -s localhost:9465/metrics | grep helper\n  candor ledger agent --charge",
		Args:    noArgs,
	}
	f := &ledgerAgentFlags{machine: addHostFlags(cmd)}
	flags := cmd.Flags()
	flags.StringVar(&f.address, "metrics", "9465", "address of the metrics server: a port on the loopback, or IP:PORT")
	flags.StringVar(&f.webConfig, "metrics-web-config", "", "file with TLS and passwords of the metrics server")
	flags.DurationVar(&f.interval, "interval", time.Second, "time between two measurements, 100ms to 1m")
	flags.BoolVar(&f.charge, "charge", false, "count the CPU time of helpers against their containers' limits")
	f.softirq = softirqFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }
	return cmd
}

func (f *ledgerAgentFlags) run(cmd *cobra.Command) error {
	address, err := metrics.Address(f.address)
	if err != nil {
		return badInput("--metrics: %v", err)
	}
	if f.interval < 100*time.Millisecond || f.interval > time.Minute {
		return badInput("--interval %v: must be 100ms to 1m", f.interval)
	}
	var web *metrics.WebConfig
	if f.webConfig != "" {
		if web, err = metrics.LoadWebConfig(f.webConfig); err != nil {
			return &exitError{exitBadInput, err}
		}
	}
	if err := needsRootForHelpers(); err != nil {
		return err
	}
	tree, err := f.openTree()
	if err != nil {
		return &exitError{exitBadInput, err}
	}
	defer tree.Close()
	meter := helpers.Open()
	defer meter.Close()
	a := &ledgerAgent{meter: meter, interval: f.interval, tree: tree, log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))}
	if *f.softirq {
		if err := addPackets(a.meter, tree); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	wait, err := f.startCharging(ctx, a)
	if err != nil {
		return err
	}
	defer func() { stop(); wait() }()
	defer a.stop()
	a.nextIfDue()
	if err := metrics.NewLedger(versionString(), a.reading).Serve(ctx, address, web, a.log); err != nil {
		return &exitError{exitBadInput, err}
	}
	if refusal := a.meter.Refusal(); refusal != nil {
		a.log.Warn("cannot divide the CPU time of daemons among containers", "error", refusal)
	}
	a.loop(ctx)
	return nil
}

// openTree opens the cgroups read-only. The agent creates no cgroups, so it does not need the right to create them.
func (f *ledgerAgentFlags) openTree() (*cgroup.Tree, error) {
	options := f.machine.options.Cgroup
	options.Driver, options.ReadOnly = cgroup.Driver(f.machine.driver.value), true
	return cgroup.Open(options)
}

// startCharging starts to charge containers until ctx is done, if --charge is set. wait waits until the charging has ended.
func (f *ledgerAgentFlags) startCharging(ctx context.Context, a *ledgerAgent) (wait func(), err error) {
	if !f.charge {
		return func() {}, nil
	}
	if refusal := a.meter.Refusal(); refusal != nil {
		return nil, badInput("--charge: cannot divide the CPU time of daemons among containers: %v", refusal)
	}
	f.machine.options.Log = a.log
	f.machine.options.Cgroup.Driver, f.machine.options.Cgroup.ReadOnly = cgroup.Driver(f.machine.driver.value), true
	h, err := host.Open(f.machine.options)
	if err != nil {
		return nil, &exitError{exitBadInput, err}
	}
	a.charger = newCharger(h, a.meter, a.log)
	err = h.Reconcile(ctx) // restores the containers of an agent that was killed, and creates the state directory
	var listener net.Listener
	if err == nil {
		listener, err = listenForCharges(f.machine.options.StateDir)
	}
	if err != nil {
		h.Close()
		return nil, badInput("--charge: %v", err)
	}
	guard, err := startGuard(a.tree, f.machine.arguments(), a.log)
	if err != nil {
		listener.Close()
		h.Close()
		return nil, fmt.Errorf("cannot start the guard: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.charger.run(ctx, listener); err != nil {
			a.log.Error("containers are not charged any more", "error", err)
		}
	}()
	return func() { <-ended; guard.stop(); h.Close() }, nil
}

// needsRootForHelpers returns an error for users other than root.
func needsRootForHelpers() error {
	if os.Geteuid() != 0 {
		return badInput("cannot measure helpers: the open files of container engines are readable only for root; use sudo")
	}
	return nil
}

// A ledgerAgent measures the helpers in a loop. A scrape reads the last measurement, or takes a new measurement if the last is
// older than an interval.
type ledgerAgent struct {
	meter    *helpers.Meter
	interval time.Duration
	tree     *cgroup.Tree
	log      *slog.Logger
	names    containerNames
	// charger is nil without --charge. Otherwise only the charger reads the meter.
	charger *charger
	// failure is the error of the last measurement, or "". The agent does not log the same error twice in a row.
	failure string

	mutex     sync.Mutex // protects the following fields, and is held during a measurement
	last      *metrics.HelperReading
	at        time.Time     // time of the last measurement
	measured  time.Duration // CPU time of all helpers until at
	isStopped bool          // the meter is closed, or will be
}

// containerNames are the names of containers by their IDs. A reading of the names reads files of each container, so readings are
// rare.
type containerNames struct {
	names  map[string]podname.Name
	tries  map[string]int // number of readings that did not find the name, by container ID
	readAt time.Time
}

const (
	namesEvery = 5 * time.Minute // time between two readings
	// A container has no name until its first process starts, which is later than the start of its shim.
	nameRetry = time.Second // time until the next reading if a container has no name
	nameTries = 10          // maximum number of these readings for a container
)

// isDue reports whether the names must be read again. The keys of totals are the IDs of the containers.
func (n *containerNames) isDue(totals map[string][]ledger.Total, now time.Time) bool {
	age := now.Sub(n.readAt)
	if age >= namesEvery {
		return true
	}
	for id := range totals {
		if _, isNamed := n.find(id); !isNamed && n.tries[id] < nameTries && age >= nameRetry {
			return true
		}
	}
	return false
}

// set stores the names that a reading has found. Containers without a name are tried again.
func (n *containerNames) set(names map[string]podname.Name, totals map[string][]ledger.Total, now time.Time) {
	tries := map[string]int{}
	n.names, n.readAt = names, now
	for id := range totals {
		if _, isNamed := n.find(id); !isNamed {
			tries[id] = n.tries[id] + 1
		}
	}
	n.tries = tries
}

// find returns the name of a container. Candor's own cgroups have the beginning of the container's ID as their names.
func (n *containerNames) find(id string) (name podname.Name, isNamed bool) {
	if name, isNamed = n.names[id]; !isNamed {
		name, isNamed = n.names[id[:min(len(id), helpers.ShortID)]]
	}
	return name, isNamed
}

// name returns the name of a container; a container without a name has its ID.
func (n *containerNames) name(id string) podname.Name {
	if name, isNamed := n.find(id); isNamed {
		return name
	}
	return podname.Name{Container: id}
}

func (a *ledgerAgent) loop(ctx context.Context) {
	tick := time.NewTicker(a.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.nextIfDue()
		}
	}
}

// The agent takes a measurement when the helpers have used maxUnmeasured of CPU time since the last measurement, or when the last
// measurement is maxAge old.
const (
	maxUnmeasured = 500 * time.Millisecond
	maxAge        = 5 * time.Second
)

// nextIfDue takes the next measurement if it is due.
func (a *ledgerAgent) nextIfDue() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	used, hasEnded, isKnown := a.used()
	if !isKnown || hasEnded || isDue(used-a.measured, time.Since(a.at), a.interval) {
		a.next()
	}
}

// isDue reports whether a measurement is due, given the CPU time of the helpers since the last measurement, and the age of that
// measurement. Ticks are not punctual, so the measurement follows at the tick nearest to maxAge.
func isDue(used, age, interval time.Duration) bool {
	return used >= maxUnmeasured || age >= maxAge-interval/2
}

// used returns the CPU time of all helpers (helpers.Meter.Used).
func (a *ledgerAgent) used() (used time.Duration, hasEnded, isKnown bool) {
	if a.charger != nil {
		a.charger.mutex.Lock()
		defer a.charger.mutex.Unlock()
	}
	return a.meter.Used()
}

// stop makes later scrapes return the last measurement, because the meter is about to be closed.
func (a *ledgerAgent) stop() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.isStopped = true
}

// next takes the next measurement. After an error, the totals of the other helpers are still right. The caller must hold a.mutex.
func (a *ledgerAgent) next() {
	last := &metrics.HelperReading{}
	var r *helpers.Reading
	if a.charger == nil {
		r = a.meter.Read()
	} else {
		r, last.Containers, last.Accounts = a.charger.read()
	}
	failure := ""
	if r.Failure != nil {
		failure = r.Failure.Error()
	}
	if failure != "" && failure != a.failure {
		a.log.Warn("cannot measure a helper: its CPU time is unattributed or missing", "error", failure)
	}
	a.failure = failure
	if now := time.Now(); a.names.isDue(r.Totals, now) {
		a.names.set(a.readNames(), r.Totals, now)
	}
	last.Unattributed, last.Dropped = r.Unattributed, r.Dropped
	for id, totals := range r.Totals {
		last.Containers = append(last.Containers, metrics.HelperTotals{
			Name: a.names.name(id), Totals: totals, Credited: r.Credits[id], HasRX: r.Credits != nil})
	}
	a.last, a.at, a.measured = last, r.At, r.Used
}

// readNames reads the names of the running containers. It omits containers without a known name: the files with the name can be missing
// when a container starts, so a later reading finds the name.
func (a *ledgerAgent) readNames() map[string]podname.Name {
	names := map[string]podname.Name{}
	found, err := audit.Read(a.tree)
	if err != nil {
		a.log.Warn("cannot read the names of containers", "error", err)
	}
	for _, c := range found {
		if strings.HasPrefix(c.ID, c.Name) {
			continue
		}
		if names[c.ID] = podname.Parse(c.Name); names[c.ID] == (podname.Name{}) {
			names[c.ID] = podname.Name{Container: c.Name}
		}
	}
	return names
}

// reading returns the last measurement for a scrape. It is at most an interval old, unless the agent is stopping.
func (a *ledgerAgent) reading() *metrics.HelperReading {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if !a.isStopped && time.Since(a.at) > a.interval {
		a.next()
	}
	return a.last
}
