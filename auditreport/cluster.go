package auditreport

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Cluster is the audit of all nodes of a cluster.
type Cluster struct {
	Nodes      []Node      `json:"nodes"`      // by name
	Namespaces []Namespace `json:"namespaces"` // the most throttled time first
	Containers []Container `json:"containers"` // the most throttled time first
}

// A Node is a node of the audit.
type Node struct {
	Name       string `json:"name"`
	Containers int    `json:"containers"`        // number of containers that the node has reported
	Problem    string `json:"problem,omitempty"` // reason why the containers of the node are missing
}

// A Container is the row of a container with its node.
type Container struct {
	Node string `json:"node"`
	Row
}

// A Namespace is the sum of the containers of a namespace.
type Namespace struct {
	Namespace     string  `json:"namespace"` // "" for containers outside of pods
	Containers    int     `json:"containers"`
	Differing     int     `json:"differing"`        // containers whose CPU count differs from their limit
	Likely        int     `json:"likely"`           // containers that would likely gain
	ThrottledTime float64 `json:"throttledSeconds"` // sum over the containers
}

// A Builder collects the output of candor audit --all -o json on several nodes. The zero value is ready to use.
type Builder struct {
	// All includes the containers whose CPU count equals their limit. They always count in the sums.
	All bool

	nodes      []Node
	containers []Container
	namespaces map[string]*Namespace
}

// ErrNotRead is the problem of a node whose output is not the output of candor audit.
var ErrNotRead = errors.New("the output is not the JSON of candor audit")

// Add adds the output of a node, or the error for which it has none. pod is the pod (namespace/name) in which candor ran; Add
// omits the containers of this pod.
func (b *Builder) Add(node, pod string, output []byte, err error) {
	n := Node{Name: node}
	var rows []Row
	if err == nil {
		rows, err = parse(output)
	}
	if err != nil {
		n.Problem = err.Error()
	}
	for i := range rows {
		r := &rows[i]
		if err != nil || pod != "" && r.Namespace+"/"+r.Pod == pod {
			continue
		}
		n.Containers++
		b.count(r)
		if b.All || r.Differs {
			b.containers = append(b.containers, Container{node, *r})
		}
	}
	b.nodes = append(b.nodes, n)
}

// count adds a container to the sum of its namespace.
func (b *Builder) count(r *Row) {
	n := b.namespaces[r.Namespace]
	if n == nil {
		if b.namespaces == nil {
			b.namespaces = map[string]*Namespace{}
		}
		n = &Namespace{Namespace: r.Namespace}
		b.namespaces[r.Namespace] = n
	}
	n.Containers++
	n.ThrottledTime += r.ThrottledTime
	if r.Differs {
		n.Differing++
	}
	if r.Gain == Likely {
		n.Likely++
	}
}

// parse reads the output of candor audit -o json. It accepts fields of later versions. A number that candor does not print is an
// error, because sums could then be wrong.
func parse(output []byte) ([]Row, error) {
	var rows []Row
	if err := json.Unmarshal(output, &rows); err != nil || rows == nil {
		return nil, ErrNotRead
	}
	for i := range rows {
		r := &rows[i]
		if r.Name == "" || r.Limit < 0 || r.Sees < 0 || r.SeesFiles < 0 || r.Threads < 0 || r.ThrottledTime < 0 || r.Throttled < 0 || r.Throttled > 1 {
			return nil, fmt.Errorf("%w: container %d has an invalid value", ErrNotRead, i)
		}
	}
	return rows, nil
}

// Cluster returns the audit of the nodes.
func (b *Builder) Cluster() *Cluster {
	c := &Cluster{Nodes: append([]Node{}, b.nodes...), Namespaces: []Namespace{}, Containers: append([]Container{}, b.containers...)}
	slices.SortStableFunc(c.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(c.Containers, func(a, b Container) int {
		return cmp.Or(cmp.Compare(b.ThrottledTime, a.ThrottledTime), strings.Compare(a.Node, b.Node), strings.Compare(a.Name, b.Name))
	})
	for _, n := range b.namespaces {
		c.Namespaces = append(c.Namespaces, *n)
	}
	slices.SortFunc(c.Namespaces, func(a, b Namespace) int {
		return cmp.Or(cmp.Compare(b.ThrottledTime, a.ThrottledTime), cmp.Compare(b.Differing, a.Differing), strings.Compare(a.Namespace, b.Namespace))
	})
	return c
}

// Total returns the sum over all namespaces. Its Namespace is "".
func (c *Cluster) Total() (t Namespace) {
	for _, n := range c.Namespaces {
		t.Containers += n.Containers
		t.Differing += n.Differing
		t.Likely += n.Likely
		t.ThrottledTime += n.ThrottledTime
	}
	return t
}
