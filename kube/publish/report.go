package publish

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// errState is the error for a state of the node that cannot be read.
var errState = errors.New("the node's state")

// ReportOf returns a Report that reads snapshots of the machine's state. policy returns the default policy of sensitive containers.
func ReportOf(snapshot func() (*host.Snapshot, error), policy func() hybrid.Policy) Report {
	return func() (v1alpha1.NodeCPUStatus, error) {
		s, err := snapshot()
		if err != nil {
			return v1alpha1.NodeCPUStatus{}, fmt.Errorf("%w: %w", errState, err)
		}
		status := statusOf(s)
		status.Policy = policy().String()
		return status, nil
	}
}

func statusOf(s *host.Snapshot) v1alpha1.NodeCPUStatus {
	holders := make(map[string]nodecpu.Holder, len(s.Grants))
	for i := range s.Grants {
		holders[s.Grants[i].ID] = holderOf(&s.Grants[i])
	}
	return nodecpu.Status(s.Node, func(id string) nodecpu.Holder { return holders[id] })
}

// holderOf returns the holder of a grant. For a container without a pod, the name is the ID of the grant on this machine.
func holderOf(g *host.Grant) nodecpu.Holder {
	if g.Engine.Pod == "" {
		return nodecpu.Holder{Container: g.ID}
	}
	return nodecpu.Holder{
		Pod:       g.Engine.Pod,
		Container: cmp.Or(podname.Parse(g.Engine.Name).Container, g.ID),
		Held:      g.State == host.Held,
	}
}
