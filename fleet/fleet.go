package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// NodeID is the number of a node, chosen by the caller.
type NodeID int32

// ContainerID is the number of a container, chosen by the caller.
type ContainerID int32

// NoNode is the NodeID of a container that is on no node.
const NoNode NodeID = -1

// Limits of a fleet. A NodeID is below MaxNodes, and a ContainerID is below MaxContainers.
const (
	MaxNodes      = 1 << 20
	MaxContainers = 1 << 26
	MaxAmount     = 1 << 44 // largest amount of a further resource
)

// Options are the options of a fleet.
type Options struct {
	Order  Order
	Hybrid hybrid.Options // options of every node
	// Resources are the names of the nodes' resources besides CPU, such as "memory".
	Resources []string
}

// A Request describes a container that needs a node.
type Request struct {
	Class    hybrid.Class
	Policy   hybrid.Policy
	Topology hybrid.TopologyPolicy

	Limit     hybrid.Milli // as in hybrid.Request
	Guarantee hybrid.Milli // as in hybrid.Request

	// Resources are the requested amounts, in the order of Options.Resources. Nil requests nothing.
	Resources []int64
	// Spread, if not 0, keeps containers with the same value on different nodes.
	Spread uint64
}

// A Placement is the node of a placed container, and the cost of the placement on this node.
type Placement struct {
	Node NodeID
	Cost hybrid.Cost
}

// A Fleet holds nodes and the containers on them. The resources of a node besides CPU are its further resources.
type Fleet struct {
	options     Options
	kinds       []*kind
	kindNumbers map[kindKey]int32                  // index into kinds
	emptyNodes  map[*topology.Machine]*hybrid.Node // for each machine, a node without containers
	indexes     [2]nodeIndex                       // by class; if hasSingleIndex returns true, both classes use the first
	nodes       []node                             // by NodeID
	containers  []container                        // by ContainerID
	amounts     []int64                            // further resources of the containers, in the order of ContainerID
	totals      Totals
	summaries   []hybrid.Summary // by NodeID
	rows        []row            // by NodeID; the indexes use the same memory
	free        []int64          // free further resources of the nodes, in the order of NodeID
	sizes       []size
	sizeNumbers map[sizeKey]uint8
	units       [indexedResources]float64 // factors with which unitsOf converts amounts of the further resources
	shares      []int32                   // free shares of CPU and of the further resources, in the order of NodeID
	refused     [][maxRefusals]int32      // by NodeID: limits that the node has refused since its last change (node.refusals)
	versions    []uint32                  // by NodeID: number of changes of the node

	searches searchCache
	expected expected

	// For the current decision:
	decisions    int64   // number of decisions, including the current decision
	lastRequest  Request // a copy of the query's request, for comparison with the next
	queryVersion int64   // number of changes of lastRequest and of kinds, at least 1 if the fleet has a node
	request      hybrid.Request
	query        query
}

// A kind describes the nodes that have the same machine and capacity.
type kind struct {
	capacity     []int64      // of the further resources
	empty        *hybrid.Node // a node without containers, from which hybrid.Node.NewLike creates the nodes
	weigher      weigher
	scale        []float64 // factors that convert amounts to shares (newScale)
	size         uint8     // index of the kind's size in Fleet.sizes
	queryVersion int64     // Fleet.queryVersion for which the following fields were computed
	aligner      aligner   // computes alignments with the query's container
	reduction    int64     // weighted sum (weigher.weigh) of the requested amounts
}

// A node is a node of the fleet. It has the size of a cache line.
type node struct {
	*hybrid.Node                 // nil if the fleet has no such node
	containers   []nodeContainer // the node's containers, by handle
	keys         [2]int64        // the node's key in each index, by class
	spreads      spreadBits      // the spreads of the node's containers
	kind         int32           // index of the node's kind in Fleet.kinds
	refusals     uint8           // number of strict requests with the topology policy Prefer that the node has refused since its last change
	isIndexed    bool            // the node is in the indexes
}

// maxRefusals is the maximum number of limits that Fleet.refused stores for a node.
const maxRefusals = 4

// A container is a running container. It has the size of a cache line.
type container struct {
	node    NodeID        // NoNode if the container does not run
	handle  hybrid.Handle // of the container on the node
	request Request       // without Resources, which are in Fleet.amounts
}

// Totals holds sums over all nodes.
type Totals struct {
	Nodes, Used int          // number of nodes; number of nodes with containers
	Containers  int          // number of running containers
	Capacity    hybrid.Milli // CPU time of all nodes
	Sensitive   hybrid.Milli // limits of all sensitive containers
	Guaranteed  hybrid.Milli // guarantees of all flexible containers
	Shared      hybrid.Milli // shared time of all sensitive containers
	Moves       int64        // number of times that a fraction has moved to another CPU since New
}

// New returns a fleet without nodes.
func New(o Options) (*Fleet, error) {
	if int(o.Order) >= len(orderNames) {
		return nil, fmt.Errorf("order %v: must be one of %s", o.Order, strings.Join(orderNames, ", "))
	}
	if len(o.Resources) > maxResources {
		return nil, fmt.Errorf("%d resources besides CPU: the maximum is %d", len(o.Resources), maxResources)
	}
	o.Resources = slices.Clone(o.Resources)
	f := &Fleet{options: o, kindNumbers: make(map[kindKey]int32),
		emptyNodes: make(map[*topology.Machine]*hybrid.Node), sizes: make([]size, 1), sizeNumbers: make(map[sizeKey]uint8)}
	return f, nil
}

// Totals returns the sums over all nodes.
func (f *Fleet) Totals() Totals { return f.totals }

// Node returns a node for reading, or nil if the fleet does not have the node. The caller must not change the node.
func (f *Fleet) Node(id NodeID) *hybrid.Node {
	if !f.hasNode(id) {
		return nil
	}
	return f.nodes[id].Node
}

// NodeOf returns the node of a container, or NoNode.
func (f *Fleet) NodeOf(c ContainerID) NodeID {
	if c < 0 || int(c) >= len(f.containers) {
		return NoNode
	}
	return f.containers[c].node
}

// Request returns the request with which a container was last placed, for example to place the container again. The request's Resources are
// valid until the container is placed again.
func (f *Fleet) Request(c ContainerID) Request {
	if c < 0 || int(c) >= len(f.containers) {
		return Request{}
	}
	r := f.containers[c].request
	r.Resources = f.amountsOf(c)
	return r
}

// Free returns the free further resources of a node.
func (f *Fleet) Free(id NodeID) []int64 {
	if !f.hasNode(id) {
		return nil
	}
	return slices.Clone(f.freeOf(id))
}

func (f *Fleet) hasNode(id NodeID) bool {
	return id >= 0 && int(id) < len(f.nodes) && f.nodes[id].Node != nil
}

// freeOf returns the free further resources of a node. The caller may change them.
func (f *Fleet) freeOf(id NodeID) []int64 {
	count := len(f.options.Resources)
	return f.free[int(id)*count : (int(id)+1)*count : (int(id)+1)*count]
}

// amountsOf returns the further resources of a container. The caller may change them.
func (f *Fleet) amountsOf(c ContainerID) []int64 {
	count := len(f.options.Resources)
	return f.amounts[int(c)*count : (int(c)+1)*count : (int(c)+1)*count]
}
