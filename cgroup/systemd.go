package cgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/errline"
)

// With the systemd driver, a group of Candor is a transient scope. The properties of the scope take precedence over the kernel's files,
// because systemd writes the files again when it is reloaded. So Candor makes every change in systemd first. Then it also writes the
// kernel's files, because systemd writes them later. systemd has no property for the burst, so Candor writes the burst to the file only.

// systemdTimeout bounds a call to systemd, including the wait for the job that the call starts.
const systemdTimeout = 30 * time.Second

// runsSystemd reports whether systemd runs this machine, as sd_booted(3) does.
func runsSystemd() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// A bus is a connection to systemd. The first call connects.
type bus struct {
	remainingTime func(time.Duration) time.Duration // see Tree.remainingTime
	mu            sync.Mutex
	conn          *systemd.Conn
}

func (b *bus) connect() (*systemd.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil && b.conn.Connected() {
		return b.conn, nil
	}
	// The connection outlives the call, so it must not have the context of the call.
	conn, err := systemd.NewWithContext(context.Background())
	if err != nil {
		return nil, fmt.Errorf("cannot connect to systemd: %w", err)
	}
	b.conn = conn
	return conn, nil
}

func (b *bus) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil {
		b.conn.Close()
		b.conn = nil
	}
}

// call calls do with a connection and a context that has the deadline of the call.
func (b *bus) call(do func(context.Context, *systemd.Conn) error) error {
	conn, err := b.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.remainingTime(systemdTimeout))
	defer cancel()
	return do(ctx, conn)
}

// runJob starts a job of systemd and waits until the job has ended.
func (b *bus) runJob(start func(context.Context, *systemd.Conn, chan<- string) error) error {
	return b.call(func(ctx context.Context, conn *systemd.Conn) error {
		result := make(chan string, 1)
		if err := start(ctx, conn, result); err != nil {
			return err
		}
		select {
		case r := <-result:
			if r != "done" {
				return fmt.Errorf("the systemd job ended with %q", r)
			}
			return nil
		case <-ctx.Done():
			return errors.New("systemd did not answer in time")
		}
	})
}

// isUnitError reports whether err is the systemd error with a name, such as "NoSuchUnit".
func isUnitError(err error, name string) bool {
	var answer dbus.Error
	return errors.As(err, &answer) && answer.Name == "org.freedesktop.systemd1."+name
}

// createScope creates the group as a scope that contains a process.
func (g *Group) createScope(s Settings, pid int) (err error) {
	if pid == 0 {
		return errors.New("a systemd scope needs a process")
	}
	if err := unix.Kill(pid, 0); err == unix.ESRCH {
		return fmt.Errorf("there is no process %d", pid)
	}
	t := g.tree
	if err := t.Claim(); err != nil {
		return err
	}
	if err := g.removeLeftover(); err != nil {
		return err
	}
	origin, err := t.groupDirsOf(pid)
	if err != nil {
		return err
	}
	before, err := isGroup(t.cpuset.parent)
	if err != nil {
		return err
	}
	t.newSlice.Store(!before)
	defer func() {
		if err != nil {
			err = errline.Join(err, t.stopNewSlice(before))
		}
	}()
	next := s.kernel(t.cpu)
	next.cfsBandwidth = roundForSystemd(next.cfsBandwidth)
	if err := g.startScope(append(scopeProperties(t.parent, g.name, pid), properties(state{}, next)...)); err != nil {
		return fmt.Errorf("cannot start %s: %w", g.base, err)
	}
	if err = t.Claim(); err == nil { // the slice can be new: systemd creates it together with its first scope
		err = g.setSliceWeight()
	}
	if err == nil {
		err = g.set(next)
	}
	if err != nil {
		return errline.Join(err, t.enter(origin, pid, origin), g.remove())
	}
	return nil
}

// startScope starts the unit of the scope. If a failed unit of the same name exists, startScope stops that unit first.
func (g *Group) startScope(props []systemd.Property) error {
	start := func() error {
		return g.tree.bus.runJob(func(ctx context.Context, conn *systemd.Conn, result chan<- string) error {
			_, err := conn.StartTransientUnitContext(ctx, g.base, "fail", props, result)
			return err
		})
	}
	err := start()
	if isUnitError(err, "UnitExists") {
		if err := g.stopScope(); err != nil {
			return err
		}
		err = start()
	}
	return err
}

// stopScope stops the unit of the scope, if the unit exists. The scope must have no processes, because systemd would kill them.
func (g *Group) stopScope() error { return g.tree.stopUnit(g.base) }

func (t *Tree) stopUnit(unit string) error {
	err := t.bus.runJob(func(ctx context.Context, conn *systemd.Conn, result chan<- string) error {
		_, err := conn.StopUnitContext(ctx, unit, "replace", result)
		return err
	})
	_ = t.bus.call(func(ctx context.Context, conn *systemd.Conn) error {
		return conn.ResetFailedUnitContext(ctx, unit)
	})
	if err == nil || isUnitError(err, "NoSuchUnit") {
		return nil // NoSuchUnit: systemd removes a scope when its last process ends
	}
	return fmt.Errorf("cannot stop %s: %w", unit, err)
}

// stopSlice stops Candor's slice, because systemd keeps a slice when its last scope ends. It returns ErrBusy while the slice has groups or
// processes.
func (t *Tree) stopSlice() error {
	h := t.cpuset
	if ok, err := isGroup(h.parent); err != nil || !ok {
		return err
	}
	names, err := t.Groups()
	if err != nil {
		return err
	}
	if ok, err := h.isPopulated(h.parent, nil); err != nil && !isGone(err) {
		return err
	} else if ok || len(names) > 0 {
		return fmt.Errorf("cannot remove %s: %w", h.parent, ErrBusy)
	}
	return t.stopUnit(t.parent)
}

// setSliceWeight sets the weight of Candor's slice to 1000 per CPU, for the reason in initParent.
func (g *Group) setSliceWeight() error {
	t := g.tree
	cpus, _, err := t.Effective()
	if err != nil {
		return err
	}
	weight := t.cpu.kernelWeight(1000 * cpus.Count())
	now, err := readInt(t.cpu.parent, "cpu.weight")
	if err != nil || now != defaultWeightV2 || now == weight {
		return err // another program has set the weight
	}
	return t.setProperties(t.parent, []systemd.Property{property("CPUWeight", uint64(weight))})
}

// updateScope sets the properties of the unit that differ between two states.
func (g *Group) updateScope(now, next state) error {
	if next.mems.IsEmpty() {
		mems, err := g.parentMems(now.mems)
		if err != nil {
			return err
		}
		next.mems = mems
	}
	if err := g.tree.checkAvailable(g.parentDir(), cpusFile, next.cpus); err != nil {
		return err
	}
	if err := g.tree.checkAvailable(g.parentDir(), memsFile, next.mems); err != nil {
		return err
	}
	return g.tree.setProperties(g.base, properties(now, next))
}

// updateScopeCPUs sets the CPUs and memory nodes of the unit.
func (g *Group) updateScopeCPUs(cpus, mems cpuset.Set) error {
	now, err := g.state()
	if err != nil {
		return err
	}
	next := now
	next.cpus, next.mems = cpus, mems
	return g.updateScope(now, next)
}

// parentMems returns the memory nodes of the parent if the group's present set is not empty. Otherwise it returns the empty set, because
// the group has the parent's nodes already.
func (g *Group) parentMems(now cpuset.Set) (cpuset.Set, error) {
	if now.IsEmpty() {
		return now, nil
	}
	return g.tree.readEffective(g.tree.cpuset.parent, memsFile)
}

func (t *Tree) setProperties(unit string, props []systemd.Property) error {
	if len(props) == 0 {
		return nil
	}
	err := t.bus.call(func(ctx context.Context, conn *systemd.Conn) error {
		return conn.SetUnitPropertiesContext(ctx, unit, true, props...)
	})
	if err != nil {
		names := make([]string, len(props))
		for i, p := range props {
			names[i] = p.Name
		}
		return fmt.Errorf("cannot set %s of %s: %w", strings.Join(names, ", "), unit, err)
	}
	return nil
}

// scopeName returns the name of a group's unit, which is also the name of the group's folder. nameOfScope is the inverse function.
func scopeName(name string) string { return "candor-" + name + ".scope" }

func nameOfScope(unit string) (name string, isOurs bool) {
	name, isOurs = strings.CutPrefix(unit, "candor-")
	if !isOurs {
		return "", false
	}
	return strings.CutSuffix(name, ".scope")
}

// expandSlice returns the path of a slice. Each "-" in the name is a level of the path: "a-b.slice" is in "a.slice". See systemd.slice(5).
func expandSlice(slice string) (string, error) {
	name, ok := strings.CutSuffix(slice, ".slice")
	path, prefix := "", ""
	for part := range strings.SplitSeq(name, "-") {
		if part == "" || strings.ContainsAny(part, "/\n\x00 ") {
			ok = false
		}
		path += "/" + prefix + part + ".slice"
		prefix += part + "-"
	}
	if !ok || len(slice) > 200 {
		return "", fmt.Errorf("cgroup parent %.60q: must be the name of a slice with the systemd driver, such as candor.slice", slice)
	}
	return path, nil
}

func property(name string, value any) systemd.Property {
	return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
}

// scopeProperties returns the properties that a scope needs at its creation and that never change.
func scopeProperties(slice, name string, pid int) []systemd.Property {
	return []systemd.Property{
		systemd.PropDescription("Candor container " + name),
		systemd.PropSlice(slice),
		systemd.PropPids(uint32(pid)),
		property("Delegate", true), // nested groups belong to the container
		property("DefaultDependencies", false),
		property("CPUAccounting", true),
	}
}

// properties returns the unit properties that differ between two states, with their values in next.
func properties(now, next state) []systemd.Property {
	var props []systemd.Property
	if next.cpus != now.cpus {
		props = append(props, property("AllowedCPUs", bitmap(next.cpus)))
	}
	if next.mems != now.mems {
		props = append(props, property("AllowedMemoryNodes", bitmap(next.mems)))
	}
	if next.period != now.period {
		props = append(props, property("CPUQuotaPeriodUSec", uint64(next.period)))
	}
	if next.period != now.period || next.quota != now.quota {
		perSecond := uint64(math.MaxUint64) // systemd's infinity
		if next.quota != noQuota {
			perSecond = uint64(next.quota * microsPerSecond / next.period)
		}
		props = append(props, property("CPUQuotaPerSecUSec", perSecond))
	}
	if next.weight != now.weight {
		props = append(props, property("CPUWeight", uint64(next.weight)))
	}
	return props
}

const (
	microsPerSecond = 1000000
	quotaStep       = microsPerSecond / 100 // systemd stores CPUQuota= in whole percents
)

// roundForSystemd rounds a quota up to a multiple of systemd's step, 10 ms per second. For Candor's own groups, the kernel's file gets the
// rounded quota too, so that systemd never changes the file.
func roundForSystemd(b cfsBandwidth) cfsBandwidth {
	if b.quota == noQuota {
		return b
	}
	perSecond := (b.quota*microsPerSecond + b.period - 1) / b.period
	perSecond = (perSecond + quotaStep - 1) / quotaStep * quotaStep
	b.quota = perSecond * b.period / microsPerSecond
	return b
}

// bitmap returns a set in systemd's format: CPU n is bit n%8 of byte n/8.
func bitmap(set cpuset.Set) []byte {
	bytes := make([]byte, (set.Last()+8)/8)
	for cpu := range set.All() {
		bytes[cpu/8] |= 1 << (cpu % 8)
	}
	return bytes
}
