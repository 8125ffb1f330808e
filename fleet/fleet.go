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

// NoNode is the node of a container that is on none.
const NoNode NodeID = -1

// Most that a fleet has; numbers of nodes and containers are below.
const (
	MaxNodes      = 1 << 20
	MaxContainers = 1 << 26
	MaxAmount     = 1 << 44 // of a further resource
)

// Options of a fleet.
type Options struct {
	Order  Order
	Hybrid hybrid.Options // of every node
	// Resources are the names of the nodes' resources besides CPU, such as "memory".
	Resources []string
}

// A Request is the request of a container.
type Request struct {
	Class    hybrid.Class
	Policy   hybrid.Policy
	Topology hybrid.TopologyPolicy

	Limit     hybrid.Milli // as in hybrid.Request
	Guarantee hybrid.Milli // as in hybrid.Request

	// Resources are amounts in the order of Options.Resources; nil: none.
	Resources []int64
	// Spread, if not 0, keeps containers with the same value on different nodes.
	Spread uint64
}

// A Placement is the node of a placed container, and the changes on it.
type Placement struct {
	Node NodeID
	Cost hybrid.Cost
}

// A Fleet is nodes, and the containers on them.
type Fleet struct {
	options     Options
	kinds       []*kind
	kindNumbers map[kindKey]int32 // index into kinds
	emptyNodes  map[*topology.Machine]*hybrid.Node
	indexes     [2]nodeIndex // by class; a single shelf for both classes if oneShelf
	nodes       []node       // by NodeID
	containers  []container  // by ContainerID
	amounts     []int64      // further resources of the containers, container by container
	totals      Totals
	summaries   []hybrid.Summary // by NodeID
	rows        []row            // by NodeID, as the shelves have them
	free        []int64          // free further resources of the nodes, node by node
	sizes       []size
	sizeNumbers map[sizeKey]uint8
	units       [indexedResources]float64 // see unitsOf
	shares      []int32                   // free shares of CPU and of those, likewise
	refused     [][maxRefusals]int32      // by NodeID: the limits that a node refused lately (node.refusals)
	versions    []uint32                  // by NodeID: number of changes of the node

	searches searchCache
	expected expected

	// Of the decision that is being made:
	decisions    int64   // its number
	lastRequest  Request // with resources of its own
	queryVersion int64   // number of changes of the question, and of new kinds; so it is not 0 if there is a node
	request      hybrid.Request
	query        query
}

// A kind is the common part of nodes with the same machine and capacity.
type kind struct {
	capacity     []int64
	empty        *hybrid.Node // the nodes are its twins
	weigher      weigher
	scale        []float64 // makes shares of amounts
	size         uint8     // index into Fleet.sizes
	queryVersion int64     // Fleet.asks for which the following hold
	alignment    alignment // on the container of the question
	reduction    int64     // weighted sum of the request
}

// A node is a machine of the fleet, of the size of a cache line.
type node struct {
	*hybrid.Node                 // nil: no such node
	held         []heldContainer // its containers, by handle
	keys         [2]int64        // on the shelves of its kind
	spreads      spreadBits      // of its containers
	kind         int32           // index into Fleet.kinds
	refusals     uint8           // strict sensitive containers with the topology policy Prefer that it has refused since its last change
	isIndexed    bool
}

// maxRefusals bounds the stored refused limits of a node.
const maxRefusals = 4

// A container is a running container, of the size of a cache line.
type container struct {
	node    NodeID        // Nowhere: none
	handle  hybrid.Handle // on the node
	request Request       // without its resources (Fleet.amountsOf)
}

// Totals are sums over all nodes.
type Totals struct {
	Nodes, Used int          // nodes, and those of them with containers
	Containers  int          // that run
	Capacity    hybrid.Milli // CPU time of the nodes
	Sensitive   hybrid.Milli // limits of sensitive containers
	Guaranteed  hybrid.Milli // guarantees of flexible containers
	Shared      hybrid.Milli // shared time of sensitive containers
	Moves       int64        // fractions that changed CPU, ever
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

// Node returns a node for reading, or nil. A caller that changes it corrupts the fleet.
func (f *Fleet) Node(id NodeID) *hybrid.Node {
	if !f.hasNode(id) {
		return nil
	}
	return f.nodes[id].Node
}

// NodeOf returns the node of a container, or Nowhere.
func (f *Fleet) NodeOf(c ContainerID) NodeID {
	if c < 0 || int(c) >= len(f.containers) {
		return NoNode
	}
	return f.containers[c].node
}

// Request returns the request of a container at its last placement, for another placement. The resources are valid until then.
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

// freeOf returns the free further resources of a node, for changes.
func (f *Fleet) freeOf(id NodeID) []int64 {
	count := len(f.options.Resources)
	return f.free[int(id)*count : (int(id)+1)*count : (int(id)+1)*count]
}

// amountsOf returns the further resources of a container, for changes.
func (f *Fleet) amountsOf(c ContainerID) []int64 {
	count := len(f.options.Resources)
	return f.amounts[int(c)*count : (int(c)+1)*count : (int(c)+1)*count]
}
