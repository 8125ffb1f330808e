package cluster

import (
	"maps"
	"slices"

	"github.com/candor-project/candor/hybrid"
)

// A Trial is a node without some of its pods and with others, to see what would fit there then.
// The node itself does not change. A Trial is for one goroutine.
type Trial struct {
	node    *node
	without map[string]bool // by UID
	with    []*Pod
}

// Trial returns a trial of a node as it is.
func (c *Cluster) Trial(name string) *Trial {
	n := c.find(name)
	if n == nil {
		n = &node{}
	}
	return &Trial{node: n}
}

// Clone returns a trial of its own.
func (t *Trial) Clone() *Trial {
	return &Trial{t.node, maps.Clone(t.without), slices.Clone(t.with)}
}

// Remove takes a pod away.
func (t *Trial) Remove(uid string) {
	t.with = slices.DeleteFunc(t.with, func(p *Pod) bool { return p.UID == uid })
	if t.without == nil {
		t.without = map[string]bool{}
	}
	t.without[uid] = true
}

// Add brings a pod: one that was taken away has what it had before.
func (t *Trial) Add(p *Pod) {
	if t.without[p.UID] {
		delete(t.without, p.UID)
		return
	}
	t.with = append(t.with, p)
}

// Fits returns why a pod could not be there, or nil.
func (t *Trial) Fits(p *Pod) *Refusal {
	t.node.mu.Lock()
	defer t.node.mu.Unlock()
	if t.node.base == nil || len(p.containers) == 0 {
		_, refusal := t.node.find(p)
		return refusal
	}
	n, blocked := t.build()
	if blocked {
		return waiting
	}
	_, refusal := placeAll(n, p)
	return refusal
}

// build returns the node of the trial, and whether a pod that was promised room has none.
func (t *Trial) build() (n *hybrid.Node, blocked bool) {
	n = copyOf(t.node.base, t.without)
	for _, r := range t.node.reserved {
		if t.without[r.pod.UID] {
			continue
		}
		other := *r
		other.waiting = slices.Clone(r.waiting)
		other.place(n)
		blocked = blocked || other.blocked && other.ours
	}
	for _, p := range t.with {
		placed := reservation{pod: p, waiting: slices.Clone(p.lasting)}
		placed.place(n)
	}
	return n, blocked
}
