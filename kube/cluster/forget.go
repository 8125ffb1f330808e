package cluster

// An Absence is the reason why a node has no valid report.
type Absence uint8

// Reasons.
const (
	Gone     Absence = iota // there is no NodeCPU with that name
	NotYet                  // the node's agent has not reported yet
	Unusable                // the report cannot be used
	Former                  // the report is of a former node of that name
)

// absences are the refusals of pods that need Candor.
var absences = map[Absence]*Refusal{Unusable: badReport, Former: former}

// NoReport records that a node has no valid report. A version that is older than the last report changes nothing.
func (c *Cluster) NoReport(name string, version uint64, why Absence) {
	n := c.lockNode(name)
	defer n.mu.Unlock()
	if version < n.version {
		return
	}
	n.base, n.problem, n.version, n.isListed = nil, absences[why], version, why != Gone
	n.rebuild()
}

// Versions returns the version of each known NodeCPU by its name.
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

// AcceptAnyVersion makes the next report of a node count regardless of its version: versions go back when the cluster is restored from a
// backup.
func (c *Cluster) AcceptAnyVersion(name string) {
	n := c.find(name)
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.version = 0
	for _, r := range n.pods {
		r.missed = 0
	}
}

// Sweep forgets deleted nodes: they do not exist, have no NodeCPU, and no pod is bound to them. Otherwise a cluster whose nodes change often
// would grow without bound.
func (c *Cluster) Sweep(exists func(name string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range c.nodes {
		if exists(name) {
			continue
		}
		if pods, ended := n.end(); ended {
			delete(c.nodes, name)
			for uid := range pods {
				delete(c.pods, uid)
			}
		}
	}
}

// end empties a node if only reservations of unbound pods depend on it. It returns these, and whether the node has ended. A NodeRef notices
// the end by the node's changes, and looks up the successor.
func (n *node) end() (pods map[string]*reservation, ended bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isListed {
		return nil, false
	}
	for _, r := range n.pods {
		if r.bound {
			return nil, false
		}
	}
	pods, n.hasEnded = n.pods, true
	n.base, n.shown, n.reserved, n.pods, n.leaving, n.last = nil, nil, nil, nil, nil, answer{}
	n.rebuild()
	return pods, true
}
