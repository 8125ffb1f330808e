package cluster

// An Absence is the reason why a node has no valid report.
type Absence uint8

// The reasons for an absence.
const (
	Gone     Absence = iota // the node has no NodeCPU
	NotYet                  // the agent on the node has not reported yet
	Unusable                // the report is invalid
	Former                  // the report is from a former node with the same name
)

// absences maps an absence to the reason with which the node refuses pods that need Candor. For other absences the reason is errNoCandor.
var absences = map[Absence]*Refusal{Unusable: errBadReport, Former: errFormerNode}

// NoReport records that a node has no valid report. The call is ignored if version is lower than the version of the stored report.
func (c *Cluster) NoReport(name string, version uint64, why Absence) {
	n := c.lockNode(name)
	defer n.mu.Unlock()
	if version < n.version {
		return
	}
	n.base, n.problem, n.version, n.isListed = nil, absences[why], version, why != Gone
	n.rebuild()
}

// Versions maps the name of each known NodeCPU to its version.
func (c *Cluster) Versions() map[string]uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	versions := make(map[string]uint64, len(c.nodes))
	for name, n := range c.nodes {
		n.mu.Lock()
		if n.isListed {
			versions[name] = n.version
		}
		n.mu.Unlock()
	}
	return versions
}

// AcceptAnyVersion makes Report accept the next report of a node regardless of its version. This is necessary because a cluster
// that is restored from a backup continues with lower versions.
func (c *Cluster) AcceptAnyVersion(name string) {
	n := c.lookup(name)
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.version = 0
	for _, r := range n.pods {
		r.missedVersion = 0
	}
}

// Sweep forgets each node that no longer exists, has no NodeCPU, and has no bound pod, so that a cluster with changing nodes does not grow
// without bound. exists reports whether the API server has the node.
func (c *Cluster) Sweep(exists func(name string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range c.nodes {
		if exists(name) {
			continue
		}
		if pods, ended := n.retire(); ended {
			delete(c.nodes, name)
			for uid := range pods {
				delete(c.pods, uid)
			}
		}
	}
}

// retire empties a node if it has no NodeCPU and no bound pod. It returns the node's remaining pods, and whether it has retired
// the node. retire also increments n.changes. A NodeRef of the node therefore looks up the new node with the same name at its
// next use.
func (n *node) retire() (pods map[string]*reservation, ended bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isListed {
		return nil, false
	}
	for _, r := range n.pods {
		if r.isBound {
			return nil, false
		}
	}
	pods, n.isRetired = n.pods, true
	n.base, n.lastReport, n.reserved, n.pods, n.leaving, n.cached = nil, nil, nil, nil, nil, answer{}
	n.rebuild()
	return pods, true
}
