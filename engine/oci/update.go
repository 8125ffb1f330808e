package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
)

// update resizes a container that has a grant. The real runtime gets the values of the resized grant, because it records them
// and writes all of them again at each update.
func (w *Wrapper) update(c *Call, real string) (code int, err error) {
	h, before, err := w.findGrant(c)
	if err != nil {
		return 0, errline.Named(c.Name(), err)
	}
	if before == nil {
		return 0, become(real, c.Args)
	}
	defer h.Close()
	ctx := context.Background()
	u, err := c.updateOf(before)
	if err != nil {
		return 0, errline.Named(before.DisplayName(), err)
	}
	after := before
	if limit := u.limit(before); limit != before.Limit {
		if _, after, err = h.Resize(ctx, before.ID, limit, 0); err != nil {
			return 0, err
		}
	}
	code, err = u.pass(ctx, h, c, real, before.ID)
	if err != nil || code != 0 {
		if after != before {
			_, _, undo := h.Resize(ctx, before.ID, before.Limit, 0)
			err = errline.Join(err, undo)
		}
		return code, err
	}
	c.warn(h.UpdateEngineRequest(ctx, before.ID, u.change))
	c.warn(h.RewriteMemory(before)) // the update can change the memory limit
	if after != before {
		_, err := h.Notify(ctx, after, io.Discard, io.Discard)
		c.warn(err)
	}
	return 0, nil
}

// findGrant returns the grant of the command line's container, or nil if it has none. If the state cannot be read, it returns
// an error. Without the error, the real runtime would replace the settings of the grant by the values that it recorded earlier.
func (w *Wrapper) findGrant(c *Call) (*host.Host, *host.Grant, error) {
	if c.ID == "" {
		return nil, nil, nil // the runtime reports the error
	}
	h, err := w.open(c)
	if err != nil {
		return nil, nil, err
	}
	if !h.IsInUse() { // after candor uninstall
		h.Close()
		return nil, nil, nil
	}
	s, err := h.Snapshot()
	if err == nil && slices.Contains(s.Strays, c.Name()) { // the state was lost: Reconcile adopts the container
		if err = h.Reconcile(context.Background()); err == nil {
			s, err = h.Snapshot()
		}
	}
	var g *host.Grant
	if err == nil {
		g, err = s.Grant(c.Name())
	}
	if err != nil {
		h.Close()
		if errors.Is(err, hybrid.ErrUnknownID) {
			err = nil
		}
		return nil, nil, err
	}
	return h, g, nil
}

// An update is a change of resources, from a file or stream (-r) or from options.
type update struct {
	amount
	resources object // nil: the update comes from options
	cpu       object
}

// updateOf parses the update of a container and refuses settings that Candor decides.
func (c *Call) updateOf(g *host.Grant) (u update, err error) {
	if u, err = c.readUpdate(); err == nil {
		err = u.check(g)
	}
	if err == nil {
		c.warnWeight(g.ID, u.Weight)
	}
	return u, err
}

// readUpdate parses the update of a command line.
func (c *Call) readUpdate() (u update, err error) {
	file := c.value("resources", "r")
	if file == "" {
		shares := c.value("cpu-share", "cpu-shares")
		u.CPUs, u.Mems, u.Weight = c.value("cpuset-cpus"), c.value("cpuset-mems"), weightOf(shares)
		if n, err := strconv.ParseUint(shares, 10, 64); err == nil { // the runtime refuses other values
			u.Shares = int64(min(n, maxShares))
		}
		return u, errline.Join(microseconds(c, "cpu-quota", &u.Quota, strconv.ParseInt),
			microseconds(c, "cpu-period", &u.Period, strconv.ParseUint), u.readBurst(c))
	}
	text, err := readResources(file)
	if err == nil {
		u.resources, err = parseObject(text)
	}
	if err == nil {
		u.cpu, err = u.resources.inner("cpu")
	}
	if err == nil {
		u.amount, err = amountIn(u.resources)
	}
	if err != nil {
		return u, fmt.Errorf("resources: %w", err)
	}
	return u, nil
}

// microseconds reads the value of an option, if it is there.
func microseconds[T int64 | uint64](c *Call, name string, into *T, parse func(string, int, int) (T, error)) error {
	text := c.value(name)
	if text == "" {
		return nil
	}
	n, err := parse(text, 10, 64)
	if err != nil {
		return fmt.Errorf("--%s %.40q: must be a number of microseconds", name, text)
	}
	*into = n
	return nil
}

// readBurst reads the option for the burst. A burst of 0 differs from an unset burst (nil).
func (u *update) readBurst(c *Call) error {
	if c.value("cpu-burst") == "" {
		return nil
	}
	u.Burst = new(int64)
	return microseconds(c, "cpu-burst", u.Burst, strconv.ParseInt)
}

// readResources reads the file of -r, "-" for standard input.
func readResources(file string) ([]byte, error) {
	if file != "-" {
		return fileio.Read(file, maxConfig)
	}
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxConfig+1))
	if err == nil && len(text) > maxConfig {
		err = &fileio.TooLongError{Name: "standard input", Limit: maxConfig}
	}
	return text, err
}

// check refuses settings that Candor decides.
func (u *update) check(g *host.Grant) error {
	if u.Quota > 0 && u.Period == 0 && g.Period != bandwidth.DefaultPeriod {
		return fmt.Errorf("a quota of %d microseconds without a period, and the container's period is %v; use both, or --cpus", u.Quota, g.Period)
	}
	if u.isPeriodAlone(g) {
		return fmt.Errorf("a period of %d microseconds without a quota: the period is fixed at the creation; use --cpus, or a new container with the annotation candor.dev/period", u.Period)
	}
	if u.Burst != nil && *u.Burst != g.Burst.Time.Microseconds() {
		return fmt.Errorf("a burst of %d microseconds: the burst is fixed at the creation; omit it, or use a new container with the annotation candor.dev/burst", *u.Burst)
	}
	if u.Mems != "" || u.CPUs != "" && u.CPUs != g.CPUs.String() {
		return errors.New("Candor selects its CPUs and memory nodes; use --cpus, or a container that was started with --cpuset-cpus")
	}
	return nil
}

// isPeriodAlone reports whether an update changes the period without setting a quota. For a container without a limit, the
// default period is no change, because engines send the default period from their own records.
func (u *update) isPeriodAlone(g *host.Grant) bool {
	period := u.period(g.Period)
	return u.Quota == 0 && period != g.Period && (g.Limit != 0 || period != bandwidth.DefaultPeriod)
}

// limit returns the limit of the update, or the present limit if the update sets no limit.
func (u *update) limit(g *host.Grant) hybrid.Milli {
	switch {
	case u.Quota == 0:
		return g.Limit
	case u.Quota < 0:
		return 0
	default:
		return hybrid.MilliOf(u.Quota, cmp.Or(u.period(g.Period), g.Period).Microseconds())
	}
}

// memsOf returns the memory nodes to which a grant is bound; "": none.
func memsOf(h *host.Host, g *host.Grant) (string, error) {
	if !g.Mems {
		return "", nil
	}
	mems, err := h.Mems(g)
	return mems.String(), err
}

// line returns the command line of the real runtime and its input, with the values of the grant.
func (u *update) line(c *Call, g *host.Grant, mems string) (args []string, input *os.File, err error) {
	if u.resources == nil {
		quota := quotaOf(g)
		if quota == 0 {
			quota = -1
		}
		options := []string{"--cpu-quota", strconv.FormatInt(quota, 10), "--cpu-period", strconv.FormatInt(g.Period.Microseconds(), 10),
			"--cpu-share", strconv.FormatInt(sharesOf(g), 10), "--cpuset-cpus", g.CPUs.String()}
		if mems != "" {
			options = append(options, "--cpuset-mems", mems)
		}
		return c.without([]string{"cpu-quota", "cpu-period", "cpu-share", "cpu-shares", "cpu-burst", "cpuset-cpus", "cpuset-mems"}, options...), os.Stdin, nil
	}
	setCPU(u.cpu, g, mems, true)
	u.resources.set("cpu", u.cpu)
	if err := dropUnified(u.resources); err != nil {
		return nil, nil, err
	}
	text, err := encode(u.resources)
	if err == nil {
		input, err = pipeOf(text)
	}
	return c.without([]string{"resources", "r"}, "--resources", "-"), input, err
}

// pipeOf returns the read end of a pipe from which text can be read.
func pipeOf(text []byte) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = write.Write(text) // fails if the reader has closed its end
		write.Close()
	}()
	return read, nil
}
