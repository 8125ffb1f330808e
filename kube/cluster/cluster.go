package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// A Cluster holds the nodes of a Kubernetes cluster and the pods that are reserved or bound on them.
type Cluster struct {
	patience time.Duration

	mu       sync.RWMutex // acquired before the mutex of a node
	nodes    map[string]*node
	pods     map[string]*reservation // by UID; includes pods whose containers are all in the report of their node
	counters []atomic.Uint64         // counters for node.changes that no node uses yet
}

// New returns a cluster without nodes. patience is the time within which a node must report a reserved pod.
func New(patience time.Duration) *Cluster {
	return &Cluster{patience: patience, nodes: map[string]*node{}, pods: map[string]*reservation{}}
}

// node returns the node with the given name, and adds the node if it is unknown. The caller holds c.mu.
func (c *Cluster) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = unknownNode(name, c.counter())
		c.nodes[name] = n
	}
	return n
}

// counter returns a counter for node.changes of a new node. The counters are adjacent in memory because a top-k search reads all
// of them. The caller holds c.mu.
func (c *Cluster) counter() *atomic.Uint64 {
	if len(c.counters) == 0 {
		c.counters = make([]atomic.Uint64, 512)
	}
	first := &c.counters[0]
	c.counters = c.counters[1:]
	return first
}

// lookup returns the node with the given name, or nil if the node is unknown.
func (c *Cluster) lookup(name string) *node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.nodes[name]
}

// lookupOrNew returns the node with the given name. For an unknown name, it returns a new node, and does not add this node to the cluster.
func (c *Cluster) lookupOrNew(name string) *node {
	if n := c.lookup(name); n != nil {
		return n
	}
	return unknownNode(name, new(atomic.Uint64))
}

// Report stores a node's report: the node with all its grants, from nodecpu.Node. version is the resource version of the NodeCPU. A report
// whose version is not higher than the stored version is ignored. The caller must not use the report afterwards.
func (c *Cluster) Report(name string, version uint64, report *hybrid.Node, now time.Time) {
	n := c.lockNode(name)
	defer n.mu.Unlock()
	if version <= n.version {
		return
	}
	n.previousVersion, n.previousFigures = n.version, n.figures
	first := n.base == nil
	if first || n.isSilent {
		n.previousVersion = 0
	}
	n.reserveMissing(report, version, now)
	n.base, n.lastReport, n.problem, n.version = report, report, nil, version
	n.reportedAt, n.isSilent, n.isListed = now, false, true
	for _, r := range n.reserved {
		if first { // the timeout starts now, because the node could not report the pod before
			r.since = now
		}
		r.removeShown()
	}
	n.reserved = slices.DeleteFunc(n.reserved, func(r *reservation) bool { return len(r.waiting) == 0 })
	n.pruneLeaving()
	n.rebuild()
}

// lockNode locks and returns the node with the given name. It adds the node if it is unknown.
func (c *Cluster) lockNode(name string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(name)
	n.mu.Lock()
	return n
}

// Fits returns nil if a pod fits on a node now, otherwise the reason for the refusal.
func (c *Cluster) Fits(name string, p *Pod) *Refusal {
	n := c.lookupOrNew(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	_, refusal := n.quote(p)
	return refusal
}

// FitsAfterReport reports whether a pod fits on a node now. The node refused the pod before it sent its last report. The
// parameter before is the version of the report that the last report replaced, or 0. If both reports have equal hybrid.Figures,
// the node still refuses a simple pod (IsSimple), and FitsAfterReport returns false without an evaluation.
func (c *Cluster) FitsAfterReport(name string, before uint64, p *Pod) bool {
	n := c.lookup(name)
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.IsSimple() && !n.holdsRoomFor(p) && before != 0 && before == n.previousVersion && n.figures == n.previousFigures {
		return false
	}
	_, refusal := n.quote(p)
	return refusal == nil
}

// Version returns the version of a node's stored report, or 0 if there is none.
func (c *Cluster) Version(name string) uint64 {
	n := c.lookup(name)
	if n == nil {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.version
}
