package nodecpu

import (
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// Status returns the report of a node. The caller sets the counter, the time and the policy of the report. holder maps the ID of a grant on
// the node to its holder.
func Status(n *hybrid.Node, holder func(id string) Holder) v1alpha1.NodeCPUStatus {
	options, pools := n.Options(), n.Pools()
	usable := n.Usable()
	s := v1alpha1.NodeCPUStatus{
		Machine:   reportedMachine(n.Machine()),
		Algorithm: options.Algorithm.String(),
		MinShared: formatNonzero(options.MinShared),
		Reserved:  options.Reserved.String(),
		Usable:    usable.String(),
		Pools:     v1alpha1.Pools{Exclusive: pools.Exclusive.String(), Fractional: pools.Fractional.String(), Shared: pools.Shared.String()},
		Counts: v1alpha1.Counts{
			CPUs: int32(usable.Count()), Exclusive: int32(pools.Exclusive.Count()),
			Fractional: int32(pools.Fractional.Count()), Shared: int32(pools.Shared.Count()),
		},
		Sensitive:  n.Sensitive().String(),
		SharedTime: n.Shared().String(),
	}
	grants := n.Grants()
	for i := range grants {
		s.Grants = append(s.Grants, reportedGrant(&grants[i], holder(grants[i].ID)))
	}
	s.Fingerprint = v1alpha1.Fingerprint(s.Pods())
	return s
}
