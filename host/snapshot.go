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
)

// A Snapshot is the state after the last operation.
type Snapshot struct {
	Node   *hybrid.Node  // the machine and its exclusive, fractional and shared CPUs
	Grants []Grant       // in order of arrival, with their lost CPUs
	Now    time.Duration // time of the snapshot, since boot
	// Strays are the names of cgroups that run programs but are missing from the state, for example because the state was
	// removed. The next operation adopts these containers.
	Strays []string
	// Owner, if not "", is the directory of another state that owns the cgroups.
	Owner string
}

// Snapshot reads the state. It takes no lock and changes nothing, so that it can be called at any time.
func (h *Host) Snapshot() (*Snapshot, error) {
	loaded, err := h.store.Load()
	if _, ok := errors.AsType[*state.BrokenError](err); ok {
		return nil, fmt.Errorf("%w: the next operation will rebuild it from the running containers", err)
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
	err = outsideViews(func() (err error) { s.Node, err = h.newNode(); return err })
	if err != nil {
		return nil, err
	}
	if err := s.restore(h.store.File()); err != nil {
		return nil, err
	}
	return s, h.findStrays(s)
}

// findStrays adds the cgroups that are missing from the state.
func (h *Host) findStrays(s *Snapshot) error {
	if h.isPlan {
		return nil // a plan does not own cgroups
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
			continue // the cgroup has been removed meanwhile
		}
		if runs, err := g.runsProgram(); err == nil && runs {
			s.Strays = append(s.Strays, name)
		}
	}
	return nil
}

// restore restores the grants to the node and finds their lost CPUs.
func (s *Snapshot) restore(file string) error {
	held := make([]hybrid.Grant, len(s.Grants))
	for i := range s.Grants {
		held[i] = s.Grants[i].Grant
	}
	if err := s.Node.Restore(held); err != nil {
		return fmt.Errorf("state %s: %w", file, err)
	}
	for i := range s.Grants {
		if current, ok := s.Node.Grant(s.Grants[i].ID); ok {
			s.Grants[i].Grant = current
		}
	}
	return nil
}

// Grant returns a container's grant. The error is hybrid.ErrUnknownID if there is none.
func (s *Snapshot) Grant(name string) (*Grant, error) {
	for i := range s.Grants {
		if s.Grants[i].ID == name {
			return &s.Grants[i], nil
		}
	}
	if slices.Contains(s.Strays, name) {
		return nil, unknownBecause(name, "it runs without a state; the next run, resize or release adopts it")
	}
	return nil, unknownContainer(name)
}

// A ContainerState is the state of a container's cgroup in the kernel.
type ContainerState struct {
	Exists      bool
	Settings    cgroup.Settings
	Stat        cgroup.Stat
	Processes   []int
	Shown       cpuset.Set   // CPUs of its view; empty if there is no view, or if ShownErr is set
	ShownErr    error        // fs.ErrNotExist: no view
	Memory      *MemoryState // nil: unknown, or no memory limit
	IsPaused    bool         // the freezer has stopped the processes, for example after docker pause
	Unreadable  error        // error of reading the cgroup's files, or nil
	Differences []Difference // from the grant
}

// InspectContainer reads a container's cgroup. A missing cgroup gives a state with Exists false, and an unreadable
// cgroup a state with Unreadable set, so that the caller can continue with other containers.
func (h *Host) InspectContainer(grant *Grant) *ContainerState {
	s := new(ContainerState)
	s.Shown, s.ShownErr = h.store.ShownCPUs(grant.ID)
	g := h.groupOf(grant)
	var err error
	if s.Settings, err = g.Settings(); err == nil {
		s.Stat, err = g.Stat()
	}
	if err == nil {
		s.Processes, err = g.Processes()
	}
	if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) { // the cgroup is missing or incomplete
		return s
	}
	s.Exists, s.Unreadable = true, err
	if grant.State == Running && len(s.Processes) > 0 {
		s.IsPaused, _ = g.Frozen() // an error counts as not paused
	}
	s.Differences = h.differences(grant, s)
	s.Memory = h.memoryState(grant)
	return s
}

// Condition returns the state of a container for display: its grant's state, or "ended", "paused" or "degraded". A running
// container is ended if it has no processes and the process that requested its grant has ended. It is degraded if it has lost
// CPUs, if it is strict and its topology policy is not met, or if a setting differs from its grant. A degraded container can also
// be paused.
func (s *ContainerState) Condition(g *Grant) string {
	switch {
	case g.State == Running && len(s.Processes) == 0 && !g.Creator.Alive():
		return "ended"
	case !g.Lost.IsEmpty(), g.Policy == hybrid.Strict && !g.TopologyMet, len(s.Differences) > 0:
		return "degraded"
	case s.IsPaused:
		return "paused"
	default:
		return string(g.State)
	}
}

// DisplayNames returns the names of the containers in their pods or engines, by ID. Programs of candor run are not among them.
func (s *Snapshot) DisplayNames() map[string]podname.Name {
	names := map[string]podname.Name{}
	for i := range s.Grants {
		if name := s.Grants[i].Engine.DisplayName(); name != (podname.Name{}) {
			names[s.Grants[i].ID] = name
		}
	}
	return names
}

// Warning returns a line about cgroups outside the state: cgroups of another state, or cgroups without a grant. It
// returns "" if there are none.
func (s *Snapshot) Warning() string {
	switch {
	case s.Owner != "":
		return fmt.Sprintf("the cgroups here belong to the state in %s; --state-dir %[1]s shows them", s.Owner)
	case len(s.Strays) == 1:
		return fmt.Sprintf("1 cgroup runs without a state: %s; the next run, resize or release adopts it", s.Strays[0])
	case len(s.Strays) > 1:
		return fmt.Sprintf("%d cgroups run without a state: %s; the next run, resize or release adopts them",
			len(s.Strays), strings.Join(s.Strays, ", "))
	default:
		return ""
	}
}

// A LiveUsage is the CPU usage and the visible CPUs of a running container.
type LiveUsage struct {
	Usage       cgroup.Usage
	CPUs        cpuset.Set  // CPUs that the container's processes can use now
	Observation Observation // of the first process, without a note; zero for a container whose view is only the affinity
}

// ReadUsage reads a container's cgroup and its first process. It takes no lock. The error is cgroup.ErrNoGroup or
// fs.ErrNotExist if the container has ended.
func (h *Host) ReadUsage(grant *Grant) (r LiveUsage, err error) {
	if r.CPUs, _, err = h.groupOf(grant).Effective(); err != nil {
		return r, err
	}
	if r.Usage, err = h.tree.ReadUsage(cmp.Or(grant.Engine.Cgroup, grant.ID)); err != nil || !grant.View.HasFiles() {
		return r, err
	}
	r.Observation.Observation, _, err = h.observeFirst(grant)
	// Observation.Files compares the files with the affinity. The first process can have restricted its affinity, so Widen
	// replaces it by the CPUs of the cgroup.
	r.Observation.Widen(r.CPUs)
	return r, err
}

// OpenUsage opens the usage of a container for many reads per second. It takes no lock. The errors are those of
// ReadUsage.
func (h *Host) OpenUsage(grant *Grant) (*cgroup.UsageReader, error) {
	return h.tree.OpenUsage(cmp.Or(grant.Engine.Cgroup, grant.ID))
}

// Frozen reports whether the freezer has stopped a container's processes, for example after docker pause.
func (h *Host) Frozen(g *Grant) (bool, error) { return h.groupOf(g).Frozen() }

// Thaw resumes the container's processes.
func (h *Host) Thaw(g *Grant) error { return h.groupOf(g).Thaw() }

// A BusySample holds the busy time of all CPUs and the usage of a container at a moment.
type BusySample struct {
	At   time.Time
	Busy map[int]time.Duration // time since boot in which a CPU ran programs, by CPU id
	Own  cgroup.Stat
}

// SampleForeign measures, for the given time, how much processes outside of the container use the container's exclusive CPUs. ForeignUse
// defines the result.
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

// ForeignUse returns how much processes outside of the container used the container's exclusive CPUs between two samples, by CPU id. Each
// value is a share of the time, 0 to 1. The kernel counts in ticks of some milliseconds, so that short samples are imprecise.
//
// Cgroup v2 has no usage by CPU. ForeignUse then returns the sum at CPU -1 if all CPUs of the container are exclusive,
// and nil otherwise.
func ForeignUse(g *Grant, before, after *BusySample) map[int]float64 {
	took := after.At.Sub(before.At)
	if g.Exclusive.IsEmpty() || took <= 0 {
		return nil
	}
	share := func(d time.Duration, cpus int) float64 { return min(max(float64(d)/float64(took), 0), float64(cpus)) }
	ownBefore, ownAfter := before.Own.PerCPU, after.Own.PerCPU
	foreign := map[int]float64{}
	var all time.Duration
	for cpu := range g.Exclusive.All() {
		busy := after.Busy[cpu] - before.Busy[cpu]
		all += busy
		if cpu < len(ownBefore) && cpu < len(ownAfter) {
			foreign[cpu] = share(busy-(ownAfter[cpu]-ownBefore[cpu]), 1)
		}
	}
	switch {
	case ownBefore != nil:
		return foreign
	case g.CPUs == g.Exclusive:
		return map[int]float64{-1: share(all-(after.Own.CPU-before.Own.CPU), g.Exclusive.Count())}
	default:
		return nil
	}
}

// sample reads the busy time of each CPU since boot and the usage of a cgroup.
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

// parseBusy parses /proc/stat: user, nice and system time by CPU. It leaves out the time of interrupts, because an interrupt belongs to no
// process.
func parseBusy(stat string) (map[int]time.Duration, error) {
	times, err := procfs.ParseCPUTimes(stat)
	if err != nil {
		return nil, err
	}
	return BusyWith(times), nil
}

// BusyWith returns the time that each CPU was busy with programs.
func BusyWith(times map[int]procfs.CPUTime) map[int]time.Duration {
	busy := make(map[int]time.Duration, len(times))
	for cpu, spent := range times {
		busy[cpu] = spent.Programs
	}
	return busy
}
