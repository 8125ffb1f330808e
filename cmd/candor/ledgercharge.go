package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/ledger"
	"github.com/candor-project/candor/metrics"
)

// A charger enforces the limits of the containers with the setting helpers=charge (spec.HelpersCharge): it measures their
// helpers, and package host changes their quotas. For helpers that the charger does not know, other programs report the CPU time
// through a socket.
type charger struct {
	host  *host.Host
	meter *helpers.Meter
	log   *slog.Logger

	mutex    sync.Mutex // protects the meter and the following fields
	last     *helpers.Reading
	reported map[string]*reported // CPU time from other programs, by the container's ID in the state
	// baselines are the CPU times that the helpers of a container had used when the charger first saw them, by the container's ID
	// in its engine. Only later CPU time counts. A conmon, for example, can be older than the agent.
	baselines map[string]time.Duration
	received  map[string]*received // CPU time of packets, by the container's ID in its engine
	accounts  map[string]metrics.ChargedAccount
	prunedAt  time.Time
	// reportedTime is the CPU time that other programs have reported for all containers.
	reportedTime time.Duration
	// bookedTime is the part of HelperTime that the last call of Charges included.
	bookedTime time.Duration
	endedAt    time.Time // when a call of HelperTime last found that a helper had ended
}

// reported is the CPU time that other programs have reported for a container.
type reported struct {
	name podname.Name
	time time.Duration
}

// maxReadingAge is the time in which charges use the same reading of the helpers' CPU time. Otherwise each container would cause
// its own readings, because the containers are charged at different times.
const maxReadingAge = 15 * time.Millisecond

// maxMetricsAge is the time in which the metrics use the same reading.
const maxMetricsAge = time.Second

// scanInterval is the time between two scans for new helpers.
const scanInterval = time.Second

// replacementTime is the time in which a new helper can take the place of an ended helper, such as a daemon that starts again.
const replacementTime = 5 * time.Second

func newCharger(h *host.Host, m *helpers.Meter, log *slog.Logger) *charger {
	m.SetScanInterval(scanInterval)
	return &charger{host: h, meter: m, log: log, reported: map[string]*reported{}, baselines: map[string]time.Duration{}, received: map[string]*received{}, accounts: map[string]metrics.ChargedAccount{}, prunedAt: time.Now()}
}

// run charges until ctx is done, and answers the connections of a listener.
func (c *charger) run(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	go c.serve(listener)
	return c.host.ChargeHelpers(ctx, c)
}

// Charges returns the CPU time that counts against a container's limit, and the CPU time that is credited to it, so far.
func (c *charger) Charges(g *host.Grant) (charged, credited time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.update(maxReadingAge)
	c.bookedTime = c.last.Used + c.reportedTime
	if id, ok := engineID(g); ok {
		charged = c.sinceBaseline(id, g.HasHelper) + c.packets(id, g)
		credited = c.last.Credited(id)
	}
	if r := c.reported[g.ID]; r != nil {
		charged += r.time
	}
	return charged, credited
}

// HelperTime returns the CPU time of all known helpers, and the CPU time that other programs have reported. ok is false if the total
// can lack a helper: for a while after the end of a helper, because only Charges finds a helper that takes its place. ok is also
// false if the meter has no clock for its helpers (helpers.Meter.Used).
func (c *charger) HelperTime() (total time.Duration, ok bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	used, hasEnded, isKnown := c.meter.Used()
	if hasEnded {
		c.endedAt = time.Now()
	}
	return used + c.reportedTime, isKnown && time.Since(c.endedAt) >= replacementTime
}

// BookedTime returns the part of HelperTime's total that the last call of Charges included.
func (c *charger) BookedTime() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.bookedTime
}

// update reads the helpers' CPU time unless the last reading is younger than age.
func (c *charger) update(age time.Duration) {
	if c.last == nil || time.Since(c.last.At) >= age {
		c.last = c.meter.Read()
	}
}

// sinceBaseline returns the CPU time that the helpers of a container have used since the charger first saw them.
// helpers.Reading.Charged explains isPlaced.
func (c *charger) sinceBaseline(id string, isPlaced bool) time.Duration {
	charged, _, isKnown := c.last.Charged(id, isPlaced)
	if !isKnown {
		delete(c.baselines, id) // the container's helpers have ended; the CPU time of new helpers counts from 0
		return 0
	}
	if _, hasBaseline := c.baselines[id]; !hasBaseline {
		c.baselines[id] = charged
	}
	return max(charged-c.baselines[id], 0)
}

// received is the CPU time of the packets that a container has received.
type received struct {
	at      time.Time
	total   time.Duration // CPU time of all packets until at
	charged time.Duration
}

// packetShare is the part of a container's limit that received packets can take. The sender can be another tenant, so a flood must
// not stop the container.
const packetShare = 0.5

// packets returns the CPU time of received packets that counts against the limit of a container.
func (c *charger) packets(id string, g *host.Grant) time.Duration {
	_, total, _ := c.last.Charged(id, false)
	r := c.received[id]
	if r == nil {
		r = &received{at: c.last.At, total: total}
		c.received[id] = r
	}
	most := time.Duration(packetShare * float64(g.Limit) / 1000 * float64(c.last.At.Sub(r.at)))
	r.charged += min(max(total-r.total, 0), max(most, 0))
	r.at, r.total = c.last.At, total
	return r.charged
}

// Observe stores the account of a container for the metrics.
func (c *charger) Observe(g *host.Grant, a host.Account) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.accounts[g.ID] = metrics.ChargedAccount{Name: nameOfGrant(g), Saved: a.Saved, IsCharged: a.IsCharged()}
}

// nameOfGrant returns the name of a container for the metrics.
func nameOfGrant(g *host.Grant) podname.Name {
	if name := g.Engine.DisplayName(); name != (podname.Name{}) {
		return name
	}
	return podname.Name{Container: g.ID}
}

// read returns the helpers' CPU time, the reported CPU time and the accounts for the metrics.
func (c *charger) read() (r *helpers.Reading, totals []metrics.HelperTotals, accounts []metrics.ChargedAccount) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.prune()
	c.update(maxMetricsAge)
	for _, r := range c.reported {
		totals = append(totals, metrics.HelperTotals{Name: r.name, Totals: []ledger.Total{{Kind: ledger.External, Method: ledger.Exact, Time: r.time}}})
	}
	return c.last, totals, slices.Collect(maps.Values(c.accounts))
}

const pruneEvery = time.Minute

// prune removes the data of containers that have ended, at most once in pruneEvery.
func (c *charger) prune() {
	if time.Since(c.prunedAt) < pruneEvery {
		return
	}
	c.prunedAt = time.Now()
	s, err := c.host.Snapshot()
	if err != nil {
		return // the next call tries again
	}
	present := map[string]bool{}
	for i := range s.Grants {
		present[s.Grants[i].ID] = true
	}
	maps.DeleteFunc(c.reported, func(id string, _ *reported) bool { return !present[id] })
	maps.DeleteFunc(c.baselines, func(id string, _ time.Duration) bool { _, _, isKnown := c.last.Charged(id, false); return !isKnown })
	maps.DeleteFunc(c.received, func(id string, _ *received) bool { _, _, isKnown := c.last.Charged(id, false); return !isKnown })
	maps.DeleteFunc(c.accounts, func(id string, _ metrics.ChargedAccount) bool { return !present[id] })
}

// A reportedCharge is the message of candor ledger charge to the agent: a line of JSON. The answer is a line with an error, or
// an empty line.
type reportedCharge struct {
	To           string `json:"to"`
	Microseconds int64  `json:"us"`
	Source       string `json:"source,omitempty"`
}

// maxReported bounds a reported charge: one hour, in microseconds.
const maxReported = int64(time.Hour / time.Microsecond)

func (r *reportedCharge) check() error {
	switch {
	case r.To == "":
		return errors.New("missing --to; must be a container as in candor ps")
	case r.Microseconds < 1 || r.Microseconds > maxReported:
		return fmt.Errorf("--us %d: must be 1 to %d microseconds", r.Microseconds, maxReported)
	case len(r.Source) > 100:
		return fmt.Errorf("--source %.20q: must have at most 100 bytes", r.Source)
	}
	return nil
}

const maxReportedLine = 4096 // bytes

func socketOf(stateDir string) string { return filepath.Join(stateDir, "ledger.sock") }

// listenForCharges opens the socket of the agent. The socket of an agent that was killed is replaced.
func listenForCharges(stateDir string) (net.Listener, error) {
	name := socketOf(stateDir)
	if connection, err := net.Dial("unix", name); err == nil {
		connection.Close()
		return nil, fmt.Errorf("another candor ledger agent --charge runs on this machine: %s", name)
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// serve answers connections until the listener is closed.
func (c *charger) serve(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			c.log.Warn("cannot accept a charge", "error", err)
			time.Sleep(time.Second) // the cause can persist, such as too many open files
			continue
		}
		go func() {
			defer connection.Close()
			_ = connection.SetDeadline(time.Now().Add(5 * time.Second))
			answer := ""
			if err := c.receive(connection); err != nil {
				answer = strings.ReplaceAll(err.Error(), "\n", " ")
			}
			_, _ = connection.Write([]byte(answer + "\n")) // an error means that the sender has closed the connection
		}()
	}
}

// receive reads a charge from a connection and adds the charge to the container's reported CPU time.
func (c *charger) receive(connection net.Conn) error {
	if err := checkPeer(connection); err != nil {
		return err
	}
	in := bufio.NewReaderSize(connection, maxReportedLine)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("a charge must be a line of at most %d bytes: %w", maxReportedLine, err)
	}
	var r reportedCharge
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("a charge must be a JSON object: %w", err)
	}
	if err := r.check(); err != nil {
		return err
	}
	s, err := c.host.Snapshot()
	if err != nil {
		return err
	}
	g, err := grantNamed(s, r.To)
	if err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.reported[g.ID] == nil {
		c.reported[g.ID] = &reported{name: nameOfGrant(g)}
	}
	d := time.Duration(r.Microseconds) * time.Microsecond
	c.reported[g.ID].time += d
	c.reportedTime += d
	c.log.Debug("charge reported", host.LogName(g.DisplayName(), g.ID), "us", r.Microseconds, "source", r.Source)
	return nil
}

// checkPeer refuses users other than root.
func checkPeer(connection net.Conn) error {
	raw, err := connection.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if peer.Uid != 0 {
		return fmt.Errorf("only root can charge containers, not user %d", peer.Uid)
	}
	return nil
}

func newLedgerChargeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "charge --to NAME --us N",
		Short: "Charge CPU time of another program to a container",
		Long: `Charge a container for CPU time that another program has spent on its behalf. The command
reports the CPU time to the agent (candor ledger agent --charge). The CPU time counts
against the limit only if the container has the setting helpers=charge (see candor
ledger agent --help). Only root can charge.`,
		Example: "  candor ledger charge --to web --us 1500 --source my-log-driver",
		Args:    noArgs,
	}
	var r reportedCharge
	flags := cmd.Flags()
	flags.StringVar(&r.To, "to", "", "name of the container that caused the work, as in candor ps")
	flags.Int64Var(&r.Microseconds, "us", 0, "CPU time in microseconds, up to an hour")
	flags.StringVar(&r.Source, "source", "", "name of the program that did the work, for the agent's log")
	defaults, _ := defaultHostOptions()
	stateDir := flags.String("state-dir", defaults.StateDir, "state directory of the agent ($CANDOR_STATE_DIR)")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := r.check(); err != nil {
			return badInput("%v", err)
		}
		return r.send(socketOf(*stateDir))
	}
	return cmd
}

// send sends the charge to the agent.
func (r *reportedCharge) send(socket string) error {
	connection, err := net.Dial("unix", socket)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return badInput("cannot charge a container: only root can; use sudo")
	case err != nil:
		return badInput("no agent charges containers on this machine; start candor ledger agent --charge: %v", err)
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
	line, err := json.Marshal(r)
	if err == nil {
		_, err = connection.Write(append(line, '\n'))
	}
	if err != nil {
		return err
	}
	answer, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the agent did not answer: %w", err)
	}
	if answer = strings.TrimSpace(answer); answer != "" {
		return badInput("%s", answer)
	}
	return nil
}
