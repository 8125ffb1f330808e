package oci

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/candor-project/candor/host"
)

// An amount holds the CPU settings in linux.resources or in an update.
type amount struct {
	Quota  int64  // microseconds per period; 0: unset, -1: no limit
	Period uint64 // microseconds; 0: unset
	Burst  *int64 // microseconds; nil: unset
	Shares int64  // cpu.shares; 0: unset
	CPUs   string
	Mems   string
	Weight string // for a warning; "": unset, or the value that engines give every container

	UnifiedWeight int64 // cpu.weight of linux.resources.unified; 0: unset
}

// unifiedKeys are the files of cgroup v2 in linux.resources.unified that Candor sets itself.
var unifiedKeys = []string{"cpuset.cpus", "cpuset.mems", "cpu.max", "cpu.max.burst", "cpu.weight", "cpu.weight.nice"}

// The kernel's highest values of cpu.shares and cpu.weight.
const maxShares, maxUnifiedWeight = 262144, 10000

// amountIn reads the amount from linux.resources: first cpu, then unified, which takes precedence because runtimes write
// unified last.
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
	a.Shares = int64(min(shares, maxShares))
	var unified map[string]string
	if err := resources.get("unified", &unified); err != nil {
		return a, fmt.Errorf("linux.resources.%w", err)
	}
	return a, a.overrule(unified)
}

// overrule reads the settings of linux.resources.unified, which take precedence.
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
	if weight, err := strconv.ParseInt(strings.TrimSpace(unified["cpu.weight"]), 10, 64); err == nil {
		a.UnifiedWeight = min(max(weight, 1), maxUnifiedWeight)
	}
	if burst, is := unified["cpu.max.burst"]; is {
		micros, err := strconv.ParseInt(strings.TrimSpace(burst), 10, 64)
		if a.Burst = &micros; err != nil {
			return fmt.Errorf("linux.resources.unified: cpu.max.burst %.40q: must be a number of microseconds", burst)
		}
	}
	if most, is := unified["cpu.max"]; is {
		a.Quota, a.Period, err = parseMax(most, a.Period)
	}
	return err
}

// memoryIn reads the memory limits from linux.resources: memory, and unified, which takes precedence. It returns nil if there is
// no limit.
func memoryIn(resources object) (*host.MemoryRequest, error) {
	memory, err := resources.inner("memory")
	if err != nil {
		return nil, fmt.Errorf("linux.resources.%w", err)
	}
	var limit, memsw int64 // memsw is the limit of memory and swap together
	for key, into := range map[string]*int64{"limit": &limit, "swap": &memsw} {
		if err := memory.get(key, into); err != nil {
			return nil, fmt.Errorf("linux.resources.memory.%w", err)
		}
	}
	var unified map[string]string
	if err := resources.get("unified", &unified); err != nil {
		return nil, fmt.Errorf("linux.resources.%w", err)
	}
	return host.NewMemoryRequest(limit, memsw, unified), nil
}

// weightOf returns cpu.shares as text for a warning, or "" for a value that engines give every container.
func weightOf(shares string) string {
	if slices.Contains([]string{"", "0", "2", "1024"}, shares) {
		return ""
	}
	return fmt.Sprintf("cpu.shares %.20s", shares)
}

// parseMax parses a value of cpu.max: a quota or max, and an optional period. otherwise is the result for a missing period.
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
		return 0, 0, fmt.Errorf("linux.resources.unified: cpu.max %.40q: must be two numbers of microseconds, or max", text)
	}
	if isMax {
		quota = -1
	}
	return quota, period, nil
}

// dropUnified removes the settings from linux.resources.unified with which the runtime would overwrite Candor's values.
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

// burst returns the burst as a duration, 0 if it is unset.
func (a *amount) burst() time.Duration {
	if a.Burst == nil {
		return 0
	}
	return time.Duration(min(*a.Burst, 1e12)) * time.Microsecond
}

// period returns the period as a duration, or the given default.
func (a *amount) period(otherwise time.Duration) time.Duration {
	switch {
	case a.Period == 0:
		return otherwise
	case a.Period > 1e12: // refused as too long
		return time.Hour
	default:
		return time.Duration(a.Period) * time.Microsecond
	}
}

// engineRequest returns the settings that the engine requested, for candor uninstall.
func (a *amount) engineRequest() *host.EngineRequest {
	return &host.EngineRequest{
		QuotaUs: a.Quota, PeriodUs: int64(min(a.Period, 1e12)), BurstUs: a.burst().Microseconds(),
		Shares: a.Shares, Weight: a.UnifiedWeight,
	}
}

// change replaces the settings that the engine requested by the settings of an update. Settings that are missing from the update stay.
func (a *amount) change(r *host.EngineRequest) {
	next := a.engineRequest()
	if next.QuotaUs != 0 {
		r.QuotaUs = next.QuotaUs
	}
	if next.PeriodUs != 0 {
		r.PeriodUs = next.PeriodUs
	}
	if a.Burst != nil {
		r.BurstUs = next.BurstUs
	}
	if next.Shares != 0 {
		r.Shares = next.Shares
	}
	if next.Weight != 0 {
		r.Weight = next.Weight
	}
}
