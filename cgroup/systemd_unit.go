package cgroup

import (
	"fmt"
	"math"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/candor-project/candor/cpuset"
)

// scopeName is the unit of a group, and its folder; nameOfScope is the reverse.
func scopeName(name string) string { return "candor-" + name + ".scope" }

func nameOfScope(unit string) (name string, ours bool) {
	name, ours = strings.CutPrefix(unit, "candor-")
	if !ours {
		return "", false
	}
	return strings.CutSuffix(name, ".scope")
}

// expandSlice returns the path of a slice: a "-" in its name is a level,
// "a-b.slice" is in "a.slice". See systemd.slice(5).
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
		return "", fmt.Errorf("cgroup parent %.60q: want the name of a slice with the systemd driver, such as candor.slice", slice)
	}
	return path, nil
}

func property(name string, value any) systemd.Property {
	return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
}

// scopeProperties are those that a scope is born with.
func scopeProperties(slice, name string, pid int) []systemd.Property {
	return []systemd.Property{
		systemd.PropDescription("Candor container " + name),
		systemd.PropSlice(slice),
		systemd.PropPids(uint32(pid)),
		property("Delegate", true), // what is nested below is the container's
		property("DefaultDependencies", false),
		property("CPUAccounting", true),
	}
}

// properties are the unit's properties that differ between two states.
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
		if next.quota != none {
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
	quotaStep       = microsPerSecond / 100 // systemd keeps CPUQuota= in whole percents
)

// roundForSystemd rounds a quota up to what systemd can keep: 10 ms a second. The
// rounded value goes to the kernel's file too, so that systemd never changes it.
func roundForSystemd(b bandwidth) bandwidth {
	if b.quota == none {
		return b
	}
	perSecond := (b.quota*microsPerSecond + b.period - 1) / b.period
	perSecond = (perSecond + quotaStep - 1) / quotaStep * quotaStep
	b.quota = perSecond * b.period / microsPerSecond
	return b
}

// bitmap is a set as systemd takes it: the lowest CPU is the lowest bit of the first byte.
func bitmap(set cpuset.Set) []byte {
	bytes := make([]byte, (set.Last()+8)/8)
	for cpu := range set.All() {
		bytes[cpu/8] |= 1 << (cpu % 8)
	}
	return bytes
}
