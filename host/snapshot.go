package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
	"golang.org/x/sys/unix"
)

// A Snapshot is the state as the last operation left it.
type Snapshot struct {
	Node   *hybrid.Node // the machine and its pools
	Grants []Grant      // in order of arrival, with what they have lost
	Now    time.Duration
	// Strays are groups, by name, in which programs run that the state knows nothing of: it
	// was removed, or lost. The next operation adopts them.
	Strays []string
	// Owner, if not "", is another state that the groups belong to.
	Owner string
}

// Snapshot reads the state. It takes no lock and changes nothing, so that
// everybody may look at any time.
func (h *Host) Snapshot() (*Snapshot, error) {
	loaded, err := h.store.Load()
	var broken *state.BrokenError
	if errors.As(err, &broken) {
		return nil, fmt.Errorf("%w: the next operation will rebuild it from what runs", err)
	}
	if err != nil {
		return nil, err
	}
	if boot, err := procfs.BootID(); err != nil || loaded.Boot != boot {
		loaded.Grants = nil
	}
	h.tops.learnFrom(loaded.Grants)
	s := &Snapshot{Grants: make([]Grant, len(loaded.Grants)), Now: state.SinceBoot()}
	for i, g := range loaded.Grants {
		s.Grants[i] = *g
	}
	err = outside(func() (err error) { s.Node, err = h.newNode(); return err })
	if err != nil {
		return nil, err
	}
	if err := s.restore(h.store.File()); err != nil {
		return nil, err
	}
	return s, h.findStrays(s)
}

// findStrays looks for groups that are not in the state.
func (h *Host) findStrays(s *Snapshot) error {
	if h.isPlan {
		return nil // what runs is others' business
	}
	names, err := h.tree.Groups()
	if err != nil || len(names) == 0 {
		return err
	}
	if owner, err := h.tree.Owner(); err != nil || owner != "" && owner != h.store.Dir {
		s.Owner = owner
		return err
	}
	for _, name := range names {
		if _, err := s.Grant(name); err == nil {
			continue
		}
		g := &group{Group: h.tree.Group(name)}
		if g.populated, err = g.Populated(); err != nil {
			continue // it went meanwhile
		}
		if runs, err := g.runsProgram(); err == nil && runs {
			s.Strays = append(s.Strays, name)
		}
	}
	return nil
}

// restore gives the grants to the node, and says what they have lost.
func (s *Snapshot) restore(file string) error {
	held := make([]hybrid.Grant, len(s.Grants))
	for i := range s.Grants {
		held[i] = s.Grants[i].Grant
	}
	if err := s.Node.Restore(held); err != nil {
		return fmt.Errorf("state %s: %w", file, err)
	}
	for i := range s.Grants {
		if now, ok := s.Node.Grant(s.Grants[i].ID); ok {
			s.Grants[i].Grant = now
		}
	}
	return nil
}

// Grant returns a container's grant.
func (s *Snapshot) Grant(name string) (*Grant, error) {
	for i := range s.Grants {
		if s.Grants[i].ID == name {
			return &s.Grants[i], nil
		}
	}
	if slices.Contains(s.Strays, name) {
		return nil, unknownSince(name, "it runs without a state; the next run, resize or release adopts it")
	}
	return nil, unknown(name)
}

// A ContainerState is a container as the kernel has it.
type ContainerState struct {
	Exists      bool
	Settings    cgroup.Settings
	Stat        cgroup.Stat
	Processes   []int
	Shown       cpuset.Set   // CPUs of its view; empty if it has none, or ShownErr says why they are unknown
	ShownErr    error        // fs.ErrNotExist: no view
	Unreadable  error        // why the group's files cannot be read, if they cannot
	Differences []Difference // from the grant
}

// InspectContainer reads a container's group. A group that does not exist is no error, and neither is one that cannot be read: other
// containers are still of interest.
func (h *Host) InspectContainer(of *Grant) *ContainerState {
	look := new(ContainerState)
	look.Shown, look.ShownErr = h.store.ShownCPUs(of.ID)
	g := h.groupOf(of)
	var err error
	if look.Settings, err = g.Settings(); err == nil {
		look.Stat, err = g.Stat()
	}
	if err == nil {
		look.Processes, err = g.Processes()
	}
	if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) { // wholly or by half
		return look
	}
	look.Exists, look.Unreadable = true, err
	look.Differences = h.differences(of, look)
	return look
}

// What people are told of containers.

// Condition returns the state of a container for display: its State, or "ended" if the next operation
// takes its CPUs back, or "degraded" if it has lost CPUs or its topology, or if a setting is not as granted.
func (look *ContainerState) Condition(g *Grant) string {
	switch {
	case g.State == Running && len(look.Processes) == 0 && !g.Creator.Alive():
		return "ended"
	case !g.Lost.IsEmpty(), g.Policy == hybrid.Strict && !g.TopologyMet, len(look.Differences) > 0:
		return "degraded"
	default:
		return string(g.State)
	}
}

// PodNames are the names of the containers that are in pods, by ID.
func (s *Snapshot) PodNames() map[string]podname.Name {
	names := map[string]podname.Name{}
	for i := range s.Grants {
		if name := s.Grants[i].Engine.PodName(); name != (podname.Name{}) {
			names[s.Grants[i].ID] = name
		}
	}
	return names
}

// Beside says what is beside the grants, in a line: groups of another state, or groups without one. "" is nothing.
func (s *Snapshot) Beside() string {
	switch {
	case s.Owner != "":
		return fmt.Sprintf("the groups here belong to the state in %s: --state-dir %[1]s shows them", s.Owner)
	case len(s.Strays) == 1:
		return fmt.Sprintf("1 group runs without a state: %s; the next run, resize or release adopts what runs", s.Strays[0])
	case len(s.Strays) > 1:
		return fmt.Sprintf("%d groups run without a state: %s; the next run, resize or release adopts what runs",
			len(s.Strays), strings.Join(s.Strays, ", "))
	default:
		return ""
	}
}

// A LiveUsage is what the kernel says of a running container: what it has used, and what it sees.
type LiveUsage struct {
	Usage cgroup.Usage
	CPUs  cpuset.Set // that its processes may use now
	Shown cpuset.Set // by the files of its view; empty if none is mounted
	// IsHidden reports that Shown is unknown: a process in the container holds a lease on the view, or the container has
	// more mounts or groups than Read inspects.
	IsHidden bool
}

// ReadUsage reads a container's group and its first process. It takes no lock. The error is
// cgroup.ErrNoGroup, or fs.ErrNotExist, where the container has ended.
func (h *Host) ReadUsage(of *Grant) (r LiveUsage, err error) {
	g := h.groupOf(of)
	if r.CPUs, _, err = g.Effective(); err != nil {
		return r, err
	}
	if r.Usage, err = h.tree.ReadUsage(cmp.Or(of.Engine.Cgroup, of.ID)); err != nil || of.View != spec.ViewFull {
		return r, err
	}
	first := of.Main.PID
	if !of.Main.Alive() {
		if first, err = g.FirstProcess(); errors.Is(err, cgroup.ErrTooMany) {
			r.IsHidden = true
			return r, nil
		}
	}
	if err == nil && first == 0 { // its group is removed after its processes
		err = fmt.Errorf("%s: its processes: %w", of.ID, fs.ErrNotExist)
	}
	if err != nil {
		return r, err
	}
	return r, h.readShown(&r, of.ID, first)
}

// readShown finds out whether a process has its container's view. A stat of the file in the process's root would be
// cheaper, but never return where a tenant has mounted a file system of its own there that does not answer.
func (h *Host) readShown(r *LiveUsage, name string, pid int) error {
	seen, isCovered, err := viewIn(fmt.Sprintf("/proc/%d/mountinfo", pid), procfs.MaxTenantMounts)
	switch {
	case errors.Is(err, kernelfs.ErrTooLong):
		r.IsHidden = true
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ESRCH): // it is about to end, and has no mounts any more
		return fmt.Errorf("%s: its first process: %w", name, fs.ErrNotExist)
	case err == nil && seen == name && !isCovered:
		r.Shown, err = h.store.ShownCPUs(name)
		if r.IsHidden = errors.Is(err, view.ErrLeased); r.IsHidden {
			err = nil
		}
	}
	return err
}

// OpenUsage opens what a container uses, to be read many times a second. It takes no lock. The errors are those of Read.
func (h *Host) OpenUsage(of *Grant) (*cgroup.UsageReader, error) {
	return h.tree.OpenUsage(cmp.Or(of.Engine.Cgroup, of.ID))
}

// Frozen reports whether somebody has stopped a container's processes by the kernel's freezer, as docker pause does.
func (h *Host) Frozen(g *Grant) (bool, error) { return h.groupOf(g).Frozen() }

// Thaw lets them go on.
func (h *Host) Thaw(g *Grant) error { return h.groupOf(g).Thaw() }

// A BusySample is what was counted, at one time, of all CPUs and of one container.
type BusySample struct {
	At   time.Time
	Busy map[int]time.Duration // with programs, by CPU id
	Own  cgroup.Stat
}

// SampleForeign measures for the given time how busy a container's exclusive CPUs
// are with what is not the container, as ForeignUse says it.
func (h *Host) SampleForeign(ctx context.Context, g *Grant, during time.Duration) (map[int]float64, error) {
	if g.Exclusive.IsEmpty() {
		return nil, nil
	}
	group := h.groupOf(g)
	before, err := sample(group)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(during):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := sample(group)
	if err != nil {
		return nil, err
	}
	return ForeignUse(g, &before, &after), nil
}

// ForeignUse returns how busy a container's exclusive CPUs were, between two samples, with what is not the
// container: CPUs' worth of time by CPU id, 0 to 1 for each. The kernel counts
// in ticks of some milliseconds, so that short times say little. Where it does not tell a
// group's use by CPU (cgroup v2) and the container has more CPUs than the exclusive ones, the
// answer is nil; where it has not, the sum stands at CPU -1.
func ForeignUse(g *Grant, before, after *BusySample) map[int]float64 {
	took := after.At.Sub(before.At)
	if g.Exclusive.IsEmpty() || took <= 0 {
		return nil
	}
	share := func(d time.Duration, cpus int) float64 { return min(max(float64(d)/float64(took), 0), float64(cpus)) }
	own, ownAfter := before.Own.PerCPU, after.Own.PerCPU
	strangers := map[int]float64{}
	var all time.Duration
	for cpu := range g.Exclusive.All() {
		others := after.Busy[cpu] - before.Busy[cpu]
		all += others
		if cpu < len(own) && cpu < len(ownAfter) {
			strangers[cpu] = share(others-(ownAfter[cpu]-own[cpu]), 1)
		}
	}
	switch {
	case own != nil:
		return strangers
	case g.CPUs == g.Exclusive:
		return map[int]float64{-1: share(all-(after.Own.CPU-before.Own.CPU), g.Exclusive.Count())}
	default:
		return nil
	}
}

// sample reads how long each CPU was busy since boot, and what a group used.
func sample(group *cgroup.Group) (BusySample, error) {
	text, err := kernelfs.ReadLong("/proc/stat", procfs.MaxStat)
	if err != nil {
		return BusySample{}, err
	}
	s := BusySample{At: time.Now()}
	if s.Busy, err = parseBusy(string(text)); err != nil {
		return s, err
	}
	s.Own, err = group.Stat()
	return s, err
}

// parseBusy reads /proc/stat: user, nice and system time by CPU.
// Interrupts are nobody's: they are left out.
func parseBusy(stat string) (map[int]time.Duration, error) {
	times, err := procfs.ParseCPUTimes(stat)
	if err != nil {
		return nil, err
	}
	return BusyWith(times), nil
}

// BusyWith is how long each CPU was busy with programs.
func BusyWith(times map[int]procfs.CPUTime) map[int]time.Duration {
	busy := make(map[int]time.Duration, len(times))
	for cpu, spent := range times {
		busy[cpu] = spent.Programs
	}
	return busy
}
