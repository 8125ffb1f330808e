package publish

import (
	"context"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// compareAllocatable says in the log when the kubelet counts with another amount of CPU than Candor has to give: pods that the
// cluster sends here would be refused then, or CPUs stay without use. Each difference is said once.
func (p *Publisher) compareAllocatable(ctx context.Context, s *v1alpha1.NodeCPUStatus) {
	allocatable, err := p.api.allocatable(ctx)
	if err != nil || allocatable == 0 {
		return // the report has the same way, and says what is wrong with it; or the kubelet has not told yet
	}
	minShared, _ := hybrid.ParseMilli(s.MinShared) // "": none
	given := hybrid.Milli(s.Counts.CPUs)*1000 - minShared
	differ := difference{allocatable, given}
	if allocatable != given && differ != p.differ {
		p.log.Warn("the kubelet counts with another amount of CPU than Candor has to give", "allocatable", allocatable, "candor", given,
			"usable", s.Usable, "minShared", minShared,
			"check", "want systemReserved or kubeReserved in the kubelet's configuration to be the reserved CPUs and minShared of Candor's")
	}
	p.differ = differ
}

// A difference is what the kubelet counts with, and what Candor has to give.
type difference struct{ allocatable, given hybrid.Milli }
