package host

import "github.com/candor-project/candor/cgroup"

// sayDrift says which running containers had other settings than the state says, and
// have what they are granted again. Such a write is most often a stranger's; a candor that
// was killed between the kernel and the file leaves the same.
func (op *operation) sayDrift(before []target) {
	for _, had := range before {
		granted, k := op.before[had.name], op.groups[had.name]
		if granted == nil || k == nil || !k.populated || k.unread || had.name == op.rewritten || op.behind[had.name] {
			continue
		}
		op.sayDriftOf(granted, k, had.settings)
	}
}

func (op *operation) sayDriftOf(granted *Grant, k *group, found cgroup.Settings) {
	// v1 takes a CPU that goes offline out of cpusets, v2 does not.
	left := granted.CPUs.Intersect(op.node.Machine().Online)
	if found.CPUs != granted.CPUs && found.CPUs != left {
		op.log.Warn("CPUs other than those granted are set back", "container", granted.ID,
			"found", found.CPUs, "granted", granted.CPUs, "now", k.settings.CPUs)
		op.report.Drift++
		return
	}
	want := op.settings(granted)
	want.CPUs = found.CPUs
	// What a runtime writes before the start is rounded, and set right there. What the kernel has
	// refused to take back has been said.
	if granted.State == Running && !op.same(k, found, want) && k.settings != found {
		op.log.Warn("settings other than those granted are set back", "container", granted.ID,
			"found quota", found.Quota, "found period", found.Period, "found weight", found.Weight,
			"now quota", k.settings.Quota, "now period", k.settings.Period, "now weight", k.settings.Weight)
		op.report.Drift++
	}
}
