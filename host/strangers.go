package host

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// Strangers measures for the given time how busy a container's exclusive CPUs
// are with what is not the container: CPUs' worth of time by CPU id, 0 to 1 for each. The kernel counts
// in ticks of some milliseconds, so that short times say little. Where it does not tell a
// group's use by CPU (cgroup v2) and the container has more CPUs than the exclusive ones, the
// answer is nil; where it has not, the sum stands at CPU -1.
func (h *Host) Strangers(ctx context.Context, g *Grant, during time.Duration) (map[int]float64, error) {
	if g.Exclusive.IsEmpty() {
		return nil, nil
	}
	group := h.groupOf(g)
	busy, own, err := sample(group)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	select {
	case <-time.After(during):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	busyAfter, ownAfter, err := sample(group)
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	share := func(d time.Duration, cpus int) float64 { return min(max(float64(d)/float64(took), 0), float64(cpus)) }
	strangers := map[int]float64{}
	var all time.Duration
	for cpu := range g.Exclusive.All() {
		others := busyAfter[cpu] - busy[cpu]
		all += others
		if cpu < len(own.PerCPU) && cpu < len(ownAfter.PerCPU) {
			strangers[cpu] = share(others-(ownAfter.PerCPU[cpu]-own.PerCPU[cpu]), 1)
		}
	}
	switch {
	case own.PerCPU != nil:
		return strangers, nil
	case g.CPUs == g.Exclusive:
		return map[int]float64{-1: share(all-(ownAfter.Usage-own.Usage), g.Exclusive.Count())}, nil
	default:
		return nil, nil
	}
}

// sample reads how long each CPU was busy since boot, and what a group used.
func sample(group *cgroup.Group) (busy map[int]time.Duration, own cgroup.Stat, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, own, err
	}
	if busy, err = parseBusy(string(text)); err != nil {
		return nil, own, err
	}
	own, err = group.Stat()
	return busy, own, err
}

// tick is the unit of /proc/stat: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// parseBusy reads /proc/stat: user, nice and system time by CPU.
// Interrupts are nobody's: they are left out.
func parseBusy(stat string) (map[int]time.Duration, error) {
	busy := map[int]time.Duration{}
	for line := range strings.Lines(stat) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" {
			continue
		}
		cpu, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil || cpu < 0 || cpu >= cpuset.Max {
			return nil, fmt.Errorf("/proc/stat: line %.60q", line)
		}
		for _, i := range []int{1, 2, 3} {
			ticks, err := strconv.ParseInt(fields[i], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("/proc/stat: line %.60q: %w", line, err)
			}
			busy[cpu] += time.Duration(ticks) * tick
		}
	}
	return busy, nil
}
