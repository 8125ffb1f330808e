package publish

import (
	"context"
	"fmt"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/events"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// compareAllocatable logs a difference between the kubelet's allocatable CPU and the CPU that Candor can allocate. With more allocatable
// CPU, kube-scheduler would place pods that Candor refuses. With less allocatable CPU, CPUs would stay unused. compareAllocatable
// logs each difference once, and records Events about the node while there is a difference.
func (p *Publisher) compareAllocatable(ctx context.Context, s *v1alpha1.NodeCPUStatus) {
	allocatable, err := p.api.allocatable(ctx)
	if err != nil || allocatable == 0 {
		return // on an error, the next read of the NodeCPU compares again; 0: the kubelet has not reported yet
	}
	minShared, _ := hybrid.ParseMilli(s.MinShared) // "": none
	given := hybrid.Milli(s.Counts.CPUs)*1000 - minShared
	differ := difference{allocatable, given}
	if allocatable != given && differ != p.loggedDifference {
		p.log.Warn("the kubelet's allocatable CPU differs from the CPU time that Candor can allocate", "allocatable", allocatable, "candor", given,
			"usable", s.Usable, "minShared", minShared,
			"remedy", allocatableRemedy)
	}
	p.loggedDifference = differ
	note := ""
	if allocatable != given {
		note = fmt.Sprintf("the kubelet's allocatable CPU, %v, differs from the CPU time that Candor can allocate, %v: %s", allocatable, given, allocatableRemedy)
	}
	if p.reminder.IsDue(note) {
		p.events.Node(events.CPUAllocatableDiffers, note)
	}
}

const allocatableRemedy = "set systemReserved or kubeReserved in the kubelet's configuration to the reserved CPUs and minShared of Candor"

// A difference holds the kubelet's allocatable CPU, and the CPU that Candor can allocate (given).
type difference struct{ allocatable, given hybrid.Milli }
