package oci

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An amount is the CPU time that linux.resources, or an update, names.
type amount struct {
	Quota  int64  // microseconds per period; 0: not told, -1: none
	Period uint64 // microseconds; 0: not told
	Burst  *int64 // microseconds; nil: not told
	CPUs   string
	Mems   string
	Weight string // as it is written; "": not told, or what engines give every container
}

// Files of cgroup v2 that linux.resources.unified may name, and whose place Candor's own take.
var unifiedKeys = []string{"cpuset.cpus", "cpuset.mems", "cpu.max", "cpu.max.burst", "cpu.weight", "cpu.weight.nice"}

// amountIn reads it: cpu, and over it the files of cgroup v2, which runtimes write last.
func amountIn(resources object) (a amount, err error) {
	cpu, err := resources.inner("cpu")
	if err != nil {
		return a, fmt.Errorf("linux.resources.%w", err)
	}
	var shares uint64
	for _, field := range []struct {
		key  string
		into any
	}{{"quota", &a.Quota}, {"period", &a.Period}, {"burst", &a.Burst}, {"shares", &shares}, {"cpus", &a.CPUs}, {"mems", &a.Mems}} {
		if err := cpu.get(field.key, field.into); err != nil {
			return a, fmt.Errorf("linux.resources.cpu.%w", err)
		}
	}
	a.Weight = weightOf(strconv.FormatUint(shares, 10))
	var unified map[string]string
	if err := resources.get("unified", &unified); err != nil {
		return a, fmt.Errorf("linux.resources.%w", err)
	}
	return a, a.overrule(unified)
}

// overrule reads what linux.resources.unified says instead.
func (a *amount) overrule(unified map[string]string) (err error) {
	if cpus := strings.TrimSpace(unified["cpuset.cpus"]); cpus != "" {
		a.CPUs = cpus
	}
	if mems := strings.TrimSpace(unified["cpuset.mems"]); mems != "" {
		a.Mems = mems
	}
	for _, key := range []string{"cpu.weight", "cpu.weight.nice"} {
		if value, is := unified[key]; is {
			a.Weight = fmt.Sprintf("%s %.20q", key, value)
		}
	}
	if burst, is := unified["cpu.max.burst"]; is {
		micros, err := strconv.ParseInt(strings.TrimSpace(burst), 10, 64)
		if a.Burst = &micros; err != nil {
			return fmt.Errorf("linux.resources.unified: cpu.max.burst %.40q: want a number of microseconds", burst)
		}
	}
	if most, is := unified["cpu.max"]; is {
		a.Quota, a.Period, err = parseMax(most, a.Period)
	}
	return err
}

// weightOf is what cpu.shares say that is not what engines give every container.
func weightOf(shares string) string {
	if slices.Contains([]string{"", "0", "2", "1024"}, shares) {
		return ""
	}
	return fmt.Sprintf("cpu.shares %.20s", shares)
}

// parseMax reads a file cpu.max: a quota or max, and a period, which stays as it is if there is none.
func parseMax(text string, otherwise uint64) (quota int64, period uint64, err error) {
	words := strings.Fields(text)
	period = otherwise
	if len(words) == 2 {
		period, err = strconv.ParseUint(words[1], 10, 64)
	}
	isMax := len(words) > 0 && words[0] == "max"
	if err == nil && len(words) > 0 && !isMax {
		quota, err = strconv.ParseInt(words[0], 10, 64)
	}
	if err != nil || len(words) < 1 || len(words) > 2 || quota <= 0 && !isMax {
		return 0, 0, fmt.Errorf("linux.resources.unified: cpu.max %.40q: want two numbers of microseconds, or max", text)
	}
	if isMax {
		quota = -1
	}
	return quota, period, nil
}

// dropUnified takes out of linux.resources.unified what the runtime would write over Candor's values.
func dropUnified(resources object) error {
	if _, is := resources["unified"]; !is {
		return nil
	}
	unified, err := resources.inner("unified")
	if err != nil {
		return err
	}
	for _, key := range unifiedKeys {
		delete(unified, key)
	}
	resources.set("unified", unified)
	return nil
}

// burst returns the burst as a duration, 0 where none is told.
func (a *amount) burst() time.Duration {
	if a.Burst == nil {
		return 0
	}
	return time.Duration(min(*a.Burst, 1e12)) * time.Microsecond
}

// period returns the period as a duration, or what there is without one.
func (a *amount) period(otherwise time.Duration) time.Duration {
	switch {
	case a.Period == 0:
		return otherwise
	case a.Period > 1e12: // what is too long is refused as that
		return time.Hour
	default:
		return time.Duration(a.Period) * time.Microsecond
	}
}
