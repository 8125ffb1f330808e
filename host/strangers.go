package host

import (
	"context"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
)

// A Sample is what was counted, at one time, of all CPUs and of one container.
type Sample struct {
	At   time.Time
	Busy map[int]time.Duration // with programs, by CPU id
	Own  cgroup.Stat
}

// Strangers measures for the given time how busy a container's exclusive CPUs
// are with what is not the container, as StrangersBetween says it.
func (h *Host) Strangers(ctx context.Context, g *Grant, during time.Duration) (map[int]float64, error) {
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
	return g.StrangersBetween(&before, &after), nil
}

// StrangersBetween is how busy a container's exclusive CPUs were, between two samples, with what is not the
// container: CPUs' worth of time by CPU id, 0 to 1 for each. The kernel counts
// in ticks of some milliseconds, so that short times say little. Where it does not tell a
// group's use by CPU (cgroup v2) and the container has more CPUs than the exclusive ones, the
// answer is nil; where it has not, the sum stands at CPU -1.
func (g *Grant) StrangersBetween(before, after *Sample) map[int]float64 {
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
func sample(group *cgroup.Group) (Sample, error) {
	text, err := kernelfs.ReadLong("/proc/stat", procfs.MaxStat)
	if err != nil {
		return Sample{}, err
	}
	s := Sample{At: time.Now()}
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
