package topology

import (
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// parseIsolcpus returns the possible CPUs that isolcpus= on a kernel command line isolates from the scheduler. It is
// needed for kernels before 4.2, which do not have /sys/devices/system/cpu/isolated.
//
// The value of isolcpus= is [flag,…,]list. If it has flags (nohz, managed_irq), but "domain" is not one of them, the
// kernel does not isolate the CPUs from the scheduler. As in the kernel, an invalid list isolates no CPU, and only the
// last isolcpus= applies.
func parseIsolcpus(cmdline string, possible cpuset.Set) cpuset.Set {
	var isolated cpuset.Set
	for word := range strings.FieldsSeq(cmdline) {
		if word == "--" {
			break // the following words are for init
		}
		value, ok := strings.CutPrefix(strings.ReplaceAll(word, `"`, ""), "isolcpus=")
		if !ok {
			continue
		}
		isolated = cpuset.Set{}
		if list, isDomain := cutFlags(value); isDomain {
			isolated = kernelList(list, possible)
		}
	}
	return isolated
}

// cutFlags removes the flags from the value of isolcpus=. hasDomain reports whether the value isolates CPUs from the
// scheduler's domains. This is the default without flags.
func cutFlags(value string) (list string, hasDomain bool) {
	hasFlags := false
	for {
		flag, rest, more := strings.Cut(value, ",")
		switch flag {
		case "domain":
			hasDomain = true
		case "nohz", "managed_irq":
		default:
			return value, hasDomain || !hasFlags
		}
		if !more {
			return "", hasDomain
		}
		hasFlags, value = true, rest
	}
}

// kernelList parses the CPU list of a boot parameter. In addition to the syntax of list files, it accepts "all", "N"
// for the last CPU, and strides: "0-15:2/4" is the first two of every four CPUs. The result is empty if the list is
// invalid.
func kernelList(list string, possible cpuset.Set) cpuset.Set {
	var s cpuset.Set
	last := possible.Last()
	for part := range strings.SplitSeq(list, ",") {
		span, stride, strided := strings.Cut(part, ":")
		low, high, isRange := strings.Cut(span, "-")
		if span == "all" {
			low, high, isRange = "0", "N", true
		}
		first, ok := kernelID(low, last)
		end := first
		if ok && isRange {
			end, ok = kernelID(high, last)
		}
		used, group := 1, 1
		if ok && strided {
			used, group, ok = kernelStride(stride)
		}
		if !ok || end < first || (strided && !isRange) {
			return cpuset.Set{}
		}
		for cpu := first; cpu <= min(end, last); cpu++ {
			if (cpu-first)%group < used && possible.Contains(cpu) {
				s.Add(cpu)
			}
		}
	}
	return s
}

// kernelID parses a CPU id, or "N" for the last CPU.
func kernelID(s string, last int) (int, bool) {
	if s == "N" || s == "n" {
		return last, true
	}
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}

// kernelStride parses a stride, such as "2/4" for the first 2 of every 4 CPUs.
func kernelStride(s string) (used, group int, ok bool) {
	u, g, hasGroup := strings.Cut(s, "/")
	n, err1 := strconv.ParseUint(u, 10, 31)
	m, err2 := strconv.ParseUint(g, 10, 31)
	return int(n), int(m), hasGroup && err1 == nil && err2 == nil && n >= 1 && n <= m
}
