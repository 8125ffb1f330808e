package softirq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
)

// accountsInterrupts reports whether the kernel counts the time of interrupts separately, and not as CPU time of tasks. This needs
// CONFIG_IRQ_TIME_ACCOUNTING, with which struct rq has the field prev_irq_time (kernel/sched/sched.h), and a reliable clock at run time
// (sched_clock_irqtime in kernel/sched/cputime.c). Without the clock, the kernel measures time by ticks. A tick cannot interrupt
// a hard interrupt, so the time in hard interrupts stays 0 in /proc/stat.
func accountsInterrupts() (bool, error) {
	hasField, err := hasIRQTime()
	if err != nil || !hasField {
		return false, err
	}
	text, err := kernelfs.ReadLong("/proc/stat", procfs.MaxStat)
	if err != nil {
		return false, err
	}
	ticks, err := parseInterruptTime(string(text))
	return ticks > 0, err
}

func hasIRQTime() (bool, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return false, fmt.Errorf("cannot read the types of the kernel: %w", err)
	}
	types, err := spec.AnyTypesByName("rq")
	if errors.Is(err, btf.ErrNotFound) {
		return false, nil
	}
	for _, t := range types {
		if s, ok := t.(*btf.Struct); ok {
			for _, m := range s.Members {
				if m.Name == "prev_irq_time" {
					return true, nil
				}
			}
		}
	}
	return false, err
}

// parseInterruptTime returns the time in hard interrupts since the boot, in ticks, from the text of /proc/stat: the sixth value
// of the line "cpu" (proc_stat(5)).
func parseInterruptTime(text string) (ticks uint64, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 7 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat: line %.60q has no time of interrupts", line)
	}
	if ticks, err = strconv.ParseUint(fields[6], 10, 64); err != nil {
		return 0, fmt.Errorf("/proc/stat: line %.60q: %w", line, err)
	}
	return ticks, nil
}
