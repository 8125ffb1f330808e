package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A NodeCPU holds the CPUs of the node with the same name, and their holders. Only the node's agent, candor nri --publish, writes it.
type NodeCPU struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status NodeCPUStatus `json:"status,omitzero"`
}

// NodeUID returns the UID of the Node that a NodeCPU belongs to; empty: it names none. A Node that has the same name and another UID may be
// another machine.
func (n *NodeCPU) NodeUID() types.UID {
	for _, owner := range n.OwnerReferences {
		if owner.Kind == "Node" {
			return owner.UID
		}
	}
	return ""
}

// NodeCPUStatus is a report of a node.
type NodeCPUStatus struct {
	// Counter increases by 1 with each report.
	Counter int64 `json:"counter"`
	// Reported is the time of the report by the node's clock. It is informative: no decision depends on it.
	Reported metav1.Time `json:"reported"`
	// Fingerprint is the Fingerprint of the UIDs of the pods in the report.
	Fingerprint string `json:"fingerprint"`

	Machine Machine `json:"machine"`
	// Algorithm is "candor" or "paper".
	Algorithm string `json:"algorithm"`
	// Policy is the node's default policy of sensitive containers: "strict" or "best-effort".
	Policy string `json:"policy,omitempty"`
	// MinShared is CPU time that sensitive containers never get; empty: none.
	MinShared string `json:"minShared,omitempty"`
	// Reserved are CPUs that no container gets from Candor.
	Reserved string `json:"reserved,omitempty"`
	// Usable are the CPUs that Candor gives to containers.
	Usable string `json:"usable"`

	Pools  Pools  `json:"pools"`
	Counts Counts `json:"counts"`
	// Sensitive is the sum of the sensitive containers' limits.
	Sensitive string `json:"sensitive"`
	// SharedTime is the part of Sensitive on CPUs in more than one container's cpuset.
	SharedTime string `json:"sharedTime"`

	// Grants are the grants of the containers, in order of arrival.
	Grants []Grant `json:"grants,omitempty"`
}

// A Machine is the part of a node's topology that decides which CPUs a container gets. Sockets, L3s and Cores are lists of CPU sets, separated
// by blanks.
type Machine struct {
	// Description is the machine in hwloc's notation; empty if the notation cannot express it.
	Description string `json:"description,omitempty"`
	Online      string `json:"online"`
	Offline     string `json:"offline,omitempty"`
	Isolated    string `json:"isolated,omitempty"`
	Sockets     string `json:"sockets"`
	// NUMANodes are the memory nodes that have online CPUs.
	NUMANodes []NUMANode `json:"numaNodes"`
	// L3s are the CPUs that share an L3 cache; empty where the kernel knows of none.
	L3s string `json:"l3s,omitempty"`
	// Cores are the cores of several CPUs; the other CPUs are a core each.
	Cores string `json:"cores,omitempty"`
	// Speeds distinguish fast and slow CPUs, "0-15:1024 16-23:512": the kernel's cpu_capacity or, without it, the maximum frequency in kHz. Empty:
	// all CPUs are equal.
	Speeds string `json:"speeds,omitempty"`
}

// A NUMANode is a memory node.
type NUMANode struct {
	ID   int32  `json:"id"`
	CPUs string `json:"cpus"`
	// Distances are those to the nodes of the list, in the firmware's unit (10: local).
	Distances []int32 `json:"distances"`
}

// Pools are the pools of the usable CPUs; each CPU is in exactly one.
type Pools struct {
	Exclusive  string `json:"exclusive,omitempty"`
	Fractional string `json:"fractional,omitempty"`
	Shared     string `json:"shared,omitempty"`
}

// Counts are the numbers of usable CPUs, and of those in each pool.
type Counts struct {
	CPUs       int32 `json:"cpus"`
	Exclusive  int32 `json:"exclusive"`
	Fractional int32 `json:"fractional"`
	Shared     int32 `json:"shared"`
}

// A Grant is the grant of a container.
type Grant struct {
	// Pod is the UID of the container's pod; empty outside of Kubernetes.
	Pod string `json:"pod,omitempty"`
	// Container is its name; without a pod, the name by which Candor knows it on the node.
	Container string `json:"container"`
	// Class is "sensitive"; empty: flexible.
	Class string `json:"class,omitempty"`
	// Policy is "best-effort"; empty: strict.
	Policy string `json:"policy,omitempty"`
	// Limit is the CPU limit; empty for a flexible container without a limit.
	Limit string `json:"limit,omitempty"`
	// Request is the guarantee of a flexible container; empty: its limit.
	Request string `json:"request,omitempty"`
	// CPUs are the CPUs of a sensitive container, "4,7:500m": CPU 4 is exclusive, CPU 7 carries a fraction of 500m. A flexible container has CPUs here
	// only if its topology policy confines it.
	CPUs string `json:"cpus,omitempty"`
	// Lost are CPUs that it held when they went offline.
	Lost string `json:"lost,omitempty"`
	// Topology is its topology policy, unless that is "prefer".
	Topology string `json:"topology,omitempty"`
	// TopologyMissed: the topology policy is not met.
	TopologyMissed bool `json:"topologyMissed,omitempty"`
	// Immovable: its fraction stays where it is.
	Immovable bool `json:"immovable,omitempty"`
	// Held: it has ended, and its pod keeps its CPUs for a restart.
	Held bool `json:"held,omitempty"`
}

// NodeCPUList is a list of them.
type NodeCPUList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeCPU `json:"items"`
}
