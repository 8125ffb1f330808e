package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// A Cluster is all nodes, and the pods that belong to them.
type Cluster struct {
	patience time.Duration

	mu       sync.RWMutex // taken before that of a node
	nodes    map[string]*node
	pods     map[string]*reservation // by UID; also those that their node shows
	counters []atomic.Uint64         // for the next nodes
}

// New returns a cluster without nodes. Patience bounds the time in which a node must report a pod.
func New(patience time.Duration) *Cluster {
	return &Cluster{patience: patience, nodes: map[string]*node{}, pods: map[string]*reservation{}}
}

// node returns a node of that name, made if need be. The cluster is locked.
func (c *Cluster) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = unknownNode(name, c.counter())
		c.nodes[name] = n
	}
	return n
}

// counter returns a counter for a node. The counters are adjacent in memory, since a search reads all of them. The caller holds the lock.
func (c *Cluster) counter() *atomic.Uint64 {
	if len(c.counters) == 0 {
		c.counters = make([]atomic.Uint64, 512)
	}
	first := &c.counters[0]
	c.counters = c.counters[1:]
	return first
}

// find returns a node, or nil if it is unknown.
func (c *Cluster) find(name string) *node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.nodes[name]
}

// findAny returns a node, and creates it if it is unknown.
func (c *Cluster) findAny(name string) *node {
	if n := c.find(name); n != nil {
		return n
	}
	return unknownNode(name, new(atomic.Uint64))
}

// Report takes the report of a node with all its grants, as nodecpu.Node returns it. The version grows from report to report; a report
// that is not newer than the known report changes nothing. The caller must not use the report afterwards.
func (c *Cluster) Report(name string, version uint64, report *hybrid.Node, now time.Time) {
	n := c.lockNode(name)
	defer n.mu.Unlock()
	if version <= n.version {
		return
	}
	n.before, n.wereFigures = n.version, n.figures
	first := n.base == nil
	if first || n.silent {
		n.before = 0
	}
	n.missed(report, version, now)
	n.base, n.shown, n.problem, n.version = report, report, nil, version
	n.heard, n.silent, n.isListed = now, false, true
	for _, r := range n.reserved {
		if first { // the node could not show anything until now
			r.since = now
		}
		r.settle()
	}
	n.reserved = slices.DeleteFunc(n.reserved, func(r *reservation) bool { return len(r.waiting) == 0 })
	n.stillLeaving()
	n.rebuild()
}

// lockNode returns a node of that name, made if need be, and locked.
func (c *Cluster) lockNode(name string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(name)
	n.mu.Lock()
	return n
}

// Fits returns why a pod cannot be on a node now, or nil.
func (c *Cluster) Fits(name string, p *Pod) *Refusal {
	n := c.findAny(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	_, refusal := n.ask(p)
	return refusal
}

// FitsAfterReport reports whether a refused pod fits on a node after the changes of its last report. before is the version of the previous
// report.
func (c *Cluster) FitsAfterReport(name string, before uint64, p *Pod) bool {
	n := c.find(name)
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.IsSimple() && !n.holds(p) && before != 0 && before == n.before && n.figures == n.wereFigures {
		return false
	}
	_, refusal := n.ask(p)
	return refusal == nil
}

// Version returns the version of the last report of a node that was taken, 0 if there was none.
func (c *Cluster) Version(name string) uint64 {
	n := c.find(name)
	if n == nil {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.version
}
