package procfs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
)

// tick is the unit of CPU time in /proc: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// A CPUTime is the time of a CPU since the boot, by kind of use (/proc/stat, proc_stat(5)).
type CPUTime struct {
	Programs   time.Duration // user, nice and system
	Interrupts time.Duration // hard and soft interrupts, which belong to no process
	Stolen     time.Duration // taken by the hypervisor
	Idle       time.Duration // includes the wait for input and output
}

// MaxStat bounds /proc/stat, in bytes. With 8,192 CPUs and as many interrupts, the file has 2 MB.
const MaxStat = 16 << 20

// ReadCPUTimes reads the times of the CPUs that are online, by CPU id.
func ReadCPUTimes() (map[int]CPUTime, error) {
	text, err := kernelfs.ReadLong("/proc/stat", MaxStat)
	if err != nil {
		return nil, err
	}
	return ParseCPUTimes(string(text))
}

// ParseCPUTimes reads the text of /proc/stat.
func ParseCPUTimes(text string) (map[int]CPUTime, error) {
	times := map[int]CPUTime{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" {
			continue
		}
		cpu, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil || cpu < 0 || cpu >= cpuset.Max {
			return nil, fmt.Errorf("/proc/stat: line %.60q", line)
		}
		var spent [8]time.Duration // user, nice, system, idle, iowait, irq, softirq, steal
		for i := range min(len(spent), len(fields)-1) {
			if spent[i], err = ticks(fields[i+1]); err != nil {
				return nil, fmt.Errorf("/proc/stat: line %.60q: %w", line, err)
			}
		}
		times[cpu] = CPUTime{
			Programs: spent[0] + spent[1] + spent[2], Idle: spent[3] + spent[4],
			Interrupts: spent[5] + spent[6], Stolen: spent[7],
		}
	}
	return times, nil
}

// maxTicks is 50 years, so that a sum of several values does not exceed a time.Duration.
const maxTicks = 50 * 365 * 24 * 3600 * 100

// ticks parses a number of ticks. A value above maxTicks is an error.
func ticks(text string) (time.Duration, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && n > maxTicks {
		err = strconv.ErrRange
	}
	return time.Duration(n) * tick, err
}
