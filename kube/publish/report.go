package publish

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// errState is the error for a state of the node that cannot be read.
var errState = errors.New("the node's state")

// A Source provides the data of a report. *host.Host implements it.
type Source interface {
	Snapshot() (*host.Snapshot, error)
	Observe(*host.Grant) (host.Observation, error)
}

// ReportOf returns a Report that reads snapshots of the machine's state. policy returns the default policy of sensitive containers.
func ReportOf(from Source, policy func() hybrid.Policy) Report {
	return func() (v1alpha1.NodeCPUStatus, error) {
		s, err := from.Snapshot()
		if err != nil {
			return v1alpha1.NodeCPUStatus{}, fmt.Errorf("%w: %w", errState, err)
		}
		status := statusOf(s, from.Observe)
		status.Policy = policy().String()
		return status, nil
	}
}

// WithPhase returns a Report that sets the phase to the result of a function.
func (r Report) WithPhase(phase func() string) Report {
	return func() (v1alpha1.NodeCPUStatus, error) {
		status, err := r()
		status.Phase = phase()
		return status, err
	}
}

func statusOf(s *host.Snapshot, observe func(*host.Grant) (host.Observation, error)) v1alpha1.NodeCPUStatus {
	holders := make(map[string]nodecpu.Holder, len(s.Grants))
	machine := s.Node.Machine()
	for i := range s.Grants {
		g := &s.Grants[i]
		h := holderOf(g)
		if g.State == host.Running && s.Now-g.Since >= startTime {
			if o, err := observe(g); err == nil { // an error: the container has ended
				h.Sees = sees(g, &o, machine.Online.Count())
			}
		}
		holders[g.ID] = h
	}
	return nodecpu.Status(s.Node, func(id string) nodecpu.Holder { return holders[id] })
}

// startTime is the time after which a container is observed. A runtime mounts the view while it creates the container, and an earlier
// observation would cause another write of the report.
const startTime = 10 * time.Second

// sees returns the CPUs that a container sees, in the form of v1alpha1.Grant.Sees. online is the number of online CPUs of the machine.
//
// The result uses the CPUs of the grant instead of the container's actual affinity. A container can restrict its affinity at any
// time, and each such change in the report would cause a write.
func sees(g *host.Grant, o *host.Observation, online int) string {
	o.Widen(g.CPUs)
	seen, planned := o.Summary(), g.CPUs.Count()
	if g.Class == hybrid.Flexible {
		planned = online
	}
	if seen.Affinity == 0 || seen.Files == planned {
		return ""
	}
	return seen.String()
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
