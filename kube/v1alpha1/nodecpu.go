package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A NodeCPU reports the CPUs of the node with the same name, and the containers that have them. Only the agent on the node, candor nri
// --publish, writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ncpu,categories=candor
// +kubebuilder:printcolumn:name="CPUs",type=integer,JSONPath=`.status.counts.cpus`,description="CPUs that Candor allocates to containers"
// +kubebuilder:printcolumn:name="Exclusive",type=integer,JSONPath=`.status.counts.exclusive`,description="CPUs that belong to a single sensitive container"
// +kubebuilder:printcolumn:name="Fractional",type=integer,JSONPath=`.status.counts.fractional`,description="CPUs that carry fractions of sensitive containers"
// +kubebuilder:printcolumn:name="Shared",type=integer,JSONPath=`.status.counts.shared`,description="CPUs of the flexible containers"
// +kubebuilder:printcolumn:name="Sensitive",type=string,JSONPath=`.status.sensitive`,description="sum of the sensitive containers' limits"
// +kubebuilder:printcolumn:name="Shared time",type=string,JSONPath=`.status.sharedTime`,description="part of Sensitive on CPUs of several containers"
// +kubebuilder:printcolumn:name="Algorithm",type=string,JSONPath=`.status.algorithm`,priority=1
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.status.machine.description`,priority=1
// +kubebuilder:printcolumn:name="Reported",type=date,JSONPath=`.status.reported`,priority=1,description="time of the last change"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeCPU struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Status is the last report of the node.
	Status NodeCPUStatus `json:"status,omitzero"`
}

// NodeUID returns the UID of the Node that owns the NodeCPU, or "" if there is no owner. If the Node of this name now has
// another UID, it can be another machine.
func (n *NodeCPU) NodeUID() types.UID {
	for _, owner := range n.OwnerReferences {
		if owner.Kind == "Node" {
			return owner.UID
		}
	}
	return ""
}

// Phases of a node on which Candor allocates no CPUs any more (candor nri --give-back).
const (
	GivingBack = "GivingBack" // the agent is giving the containers back to their runtime
	GivenBack  = "GivenBack"  // all containers are given back
)

// NodeCPUStatus is the last report of a node.
//
// +kubebuilder:validation:XValidation:rule="self.counter >= oldSelf.counter",message="the counter of a report is not less than the previous counter"
// +kubebuilder:validation:XValidation:rule="self.counts.exclusive + self.counts.fractional + self.counts.shared == self.counts.cpus",message="each usable CPU is in exactly one pool"
type NodeCPUStatus struct {
	// Counter increases by 1 with each report.
	// +kubebuilder:validation:Minimum=1
	Counter int64 `json:"counter"`
	// Reported is the time of the report by the node's clock. It is informational: Candor makes no decision with it.
	Reported metav1.Time `json:"reported"`
	// Fingerprint is a hash of the UIDs of the pods in the report.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Fingerprint string `json:"fingerprint"`

	// Phase is "GivingBack" while the agent gives the containers of the node back to their runtime, and "GivenBack" after that. Candor
	// then allocates no CPUs on the node. Empty means that the agent allocates CPUs.
	// +kubebuilder:validation:Enum=GivingBack;GivenBack
	Phase string `json:"phase,omitempty"`

	// Machine is the topology of the node.
	Machine Machine `json:"machine"`
	// Algorithm is the allocation algorithm of the node: "candor" or "paper".
	// +kubebuilder:validation:Enum=candor;paper
	Algorithm string `json:"algorithm"`
	// Policy is the node's default policy for sensitive containers: "strict" or "best-effort".
	// +kubebuilder:validation:Enum=strict;"best-effort"
	Policy string `json:"policy,omitempty"`
	// MinShared is the amount of CPU time that sensitive containers never get. Empty means 0.
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]+m?$`
	MinShared string `json:"minShared,omitempty"`
	// Reserved are CPUs that Candor does not allocate.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]*$`
	Reserved string `json:"reserved,omitempty"`
	// Usable are the CPUs that Candor allocates to containers.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]+$`
	Usable string `json:"usable"`

	// Pools divide the usable CPUs by their use.
	Pools Pools `json:"pools"`
	// Counts are the sizes of the pools.
	Counts Counts `json:"counts"`
	// Sensitive is the sum of the sensitive containers' limits.
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]+m?$`
	Sensitive string `json:"sensitive"`
	// SharedTime is the part of Sensitive that is allocated on CPUs of more than one container.
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]+m?$`
	SharedTime string `json:"sharedTime"`

	// Grants are the containers' CPUs, in the order in which the containers were placed.
	// +kubebuilder:validation:MaxItems=4096
	// +listType=atomic
	Grants []Grant `json:"grants,omitempty"`
}

// A Machine is the topology of a node, as far as the allocator uses it. Sockets, L3s and Cores are lists of CPU sets, separated by blanks.
type Machine struct {
	// Description is the machine in hwloc's synthetic notation. It is empty if the notation cannot describe the machine.
	// +kubebuilder:validation:MaxLength=256
	Description string `json:"description,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]+$`
	Online string `json:"online"`
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]*$`
	Offline string `json:"offline,omitempty"`
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]*$`
	Isolated string `json:"isolated,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	// +kubebuilder:validation:Pattern=`^[0-9, -]+$`
	Sockets string `json:"sockets"`
	// NUMANodes are the NUMA nodes with online CPUs.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +kubebuilder:validation:XValidation:rule="self.all(n, size(n.distances) == size(self))",message="a NUMA node has a distance to each NUMA node"
	NUMANodes []NUMANode `json:"numaNodes"`
	// L3s are the sets of CPUs that share an L3 cache. It is empty if the kernel reports no L3 cache.
	// +kubebuilder:validation:MaxLength=8192
	// +kubebuilder:validation:Pattern=`^[0-9, -]*$`
	L3s string `json:"l3s,omitempty"`
	// Cores are the cores with several CPUs. Each remaining CPU is a separate core.
	// +kubebuilder:validation:MaxLength=8192
	// +kubebuilder:validation:Pattern=`^[0-9, -]*$`
	Cores string `json:"cores,omitempty"`
	// Speeds distinguish kinds of cores, such as "0-15:1024 16-23:512". A higher number means faster cores. Older agents
	// report the kernel's cpu_capacity or, if missing, the maximum frequency in kHz. Empty means that all cores are of one kind.
	// +kubebuilder:validation:MaxLength=16384
	// +kubebuilder:validation:Pattern=`^[0-9,: -]*$`
	Speeds string `json:"speeds,omitempty"`
}

// A NUMANode is a NUMA node of the machine.
type NUMANode struct {
	// +kubebuilder:validation:Minimum=0
	ID int32 `json:"id"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]+$`
	CPUs string `json:"cpus"`
	// Distances are the distances to all NUMA nodes in the order of the list. The firmware defines 10 as the distance of a node to itself.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=255
	// +listType=atomic
	Distances []int32 `json:"distances"`
}

// Pools divide the usable CPUs by their use: for a single sensitive container, for fractions of sensitive containers, or for flexible
// containers. Each usable CPU is in exactly one pool.
type Pools struct {
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]*$`
	Exclusive string `json:"exclusive,omitempty"`
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]*$`
	Fractional string `json:"fractional,omitempty"`
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]*$`
	Shared string `json:"shared,omitempty"`
}

// Counts are the number of all usable CPUs, and the number of CPUs in each pool.
type Counts struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	CPUs int32 `json:"cpus"`
	// +kubebuilder:validation:Minimum=0
	Exclusive int32 `json:"exclusive"`
	// +kubebuilder:validation:Minimum=0
	Fractional int32 `json:"fractional"`
	// +kubebuilder:validation:Minimum=0
	Shared int32 `json:"shared"`
}

// A Grant is the CPU allocation of a container.
//
// +kubebuilder:validation:XValidation:rule="!has(self.class) || self.class != 'sensitive' || has(self.limit)",message="a sensitive container has a limit"
// +kubebuilder:validation:XValidation:rule="!has(self.class) || self.class != 'sensitive' || !has(self.request)",message="a sensitive container has no request apart from its limit"
// +kubebuilder:validation:XValidation:rule="has(self.class) && self.class == 'sensitive' || !has(self.cpus) || !self.cpus.contains(':')",message="a flexible container has no fraction"
// +kubebuilder:validation:XValidation:rule="!has(self.topologyMissed) || has(self.topology)",message="topologyMissed requires topology"
type Grant struct {
	// Pod is the UID of the container's pod. It is empty for a container outside of Kubernetes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[^/]+$`
	Pod string `json:"pod,omitempty"`
	// Container is the name of the container in the pod. Without a pod, it is Candor's ID of the container on the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[^/]+$`
	Container string `json:"container"`
	// Class is the class of the container. Empty means "flexible".
	// +kubebuilder:validation:Enum=sensitive;flexible
	Class string `json:"class,omitempty"`
	// Policy is the policy of a sensitive container. Empty means "strict".
	// +kubebuilder:validation:Enum=strict;"best-effort"
	Policy string `json:"policy,omitempty"`
	// Limit is the CPU limit. It is empty for a flexible container without a limit.
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]+m?$`
	Limit string `json:"limit,omitempty"`
	// Request is the CPU request of a flexible container. Empty means that it equals the limit.
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]+m?$`
	Request string `json:"request,omitempty"`
	// CPUs are the CPUs of a sensitive container. "4,7:500m" means that CPU 4 is exclusive, and the container has 500m of CPU 7. For a
	// flexible container, CPUs is only set if its topology policy confines the container to a part of the machine.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,:m-]+$`
	CPUs string `json:"cpus,omitempty"`
	// Lost are the container's CPUs that have gone offline.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[0-9,-]+$`
	Lost string `json:"lost,omitempty"`
	// Topology is the topology policy of the container. Empty means "prefer".
	// +kubebuilder:validation:Enum=prefer;"single-numa";"single-l3";"whole-cores";none
	Topology string `json:"topology,omitempty"`
	// TopologyMissed means that the topology policy is not satisfied.
	TopologyMissed bool `json:"topologyMissed,omitempty"`
	// Immovable means that the fraction must not move to another CPU.
	Immovable bool `json:"immovable,omitempty"`
	// Held means that the container has ended, and its CPUs are kept for a restart.
	Held bool `json:"held,omitempty"`
	// Sees is the number of CPUs that the container sees: "1/2" means 1 CPU by the grant and 2 in /proc/cpuinfo and /sys, "?" is an
	// unknown number. Empty means that a sensitive container sees its CPUs in both, and that a flexible container sees its CPUs by the
	// grant and the online CPUs of the machine in the files.
	// +kubebuilder:validation:MaxLength=9
	// +kubebuilder:validation:Pattern=`^[0-9?]+(/[0-9?]+)?$`
	Sees string `json:"sees,omitempty"`
}

// NodeCPUList is a list of NodeCPUs.
//
// +kubebuilder:object:root=true
type NodeCPUList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeCPU `json:"items"`
}
