package podcpu

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A Pod has the fields of Kubernetes' Pod that Candor reads.
type Pod struct {
	Metadata Metadata `json:"metadata"`
	Spec     Spec     `json:"spec"`
	Status   Status   `json:"status"`
}

// Metadata has the relevant fields of a pod's metadata.
type Metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	UID         string            `json:"uid"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Owners      []Owner           `json:"ownerReferences"`
}

// An Owner is an object that owns a pod, such as a ReplicaSet.
type Owner struct {
	UID string `json:"uid"`
}

// Spec has the relevant fields of a pod's spec.
type Spec struct {
	NodeName       string       `json:"nodeName"`
	InitContainers []Container  `json:"initContainers"`
	Containers     []Container  `json:"containers"`
	RestartPolicy  string       `json:"restartPolicy"`
	Resources      *Resources   `json:"resources"` // of the whole pod, besides the containers' resources
	Overhead       List         `json:"overhead"`
	NodeSelector   Labels       `json:"nodeSelector"`
	Tolerations    []Toleration `json:"tolerations"`

	// Candor ignores the values of the following fields. It only warns if they are set.

	Affinity struct {
		Node    IsSet `json:"nodeAffinity"`
		Pod     IsSet `json:"podAffinity"`
		AntiPod IsSet `json:"podAntiAffinity"`
	} `json:"affinity"`
	Spread       IsSet `json:"topologySpreadConstraints"`
	Claims       IsSet `json:"resourceClaims"`
	Gates        IsSet `json:"schedulingGates"`
	RuntimeClass IsSet `json:"runtimeClassName"`
	Priority     IsSet `json:"priorityClassName"`
	Volumes      []struct {
		Claim     IsSet `json:"persistentVolumeClaim"`
		Ephemeral IsSet `json:"ephemeral"`
	} `json:"volumes"`
}

// IsSet is true if a JSON field has a value other than null and the empty values.
type IsSet bool

// UnmarshalJSON accepts any JSON value.
func (s *IsSet) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "null", "{}", "[]", `""`:
		*s = false
	default:
		*s = true
	}
	return nil
}

// Labels maps the names of labels to their values.
type Labels map[string]string

// A Toleration allows the pod on nodes whose taints match the toleration.
type Toleration struct {
	Key      string `json:"key"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
	Effect   string `json:"effect"`
}

// A Container is a container of a pod.
type Container struct {
	Name          string    `json:"name"`
	Image         string    `json:"image"`
	Resources     Resources `json:"resources"`
	RestartPolicy string    `json:"restartPolicy"`
	RestartRules  IsSet     `json:"restartPolicyRules"`
	Ports         []struct {
		Host int32 `json:"hostPort"`
	} `json:"ports"`
}

// Resources are the requests and limits of a container or of a whole pod.
type Resources struct {
	Requests List `json:"requests"`
	Limits   List `json:"limits"`
}

// A List maps names of resources to amounts.
type List map[string]resource.Quantity

// UnmarshalJSON parses the amounts with Amount.
func (l *List) UnmarshalJSON(text []byte) error {
	var all map[string]amount
	if err := json.Unmarshal(text, &all); err != nil || all == nil {
		*l = nil
		return err
	}
	*l = make(List, len(all))
	for name, q := range all {
		(*l)[name] = q.Quantity
	}
	return nil
}

// Status has the relevant fields of a pod's status.
type Status struct {
	Phase          string            `json:"phase"`
	Nominated      string            `json:"nominatedNodeName"`
	Conditions     []Condition       `json:"conditions"`
	Containers     []ContainerStatus `json:"containerStatuses"`
	InitContainers []ContainerStatus `json:"initContainerStatuses"`
}

// A Condition is a condition of a pod.
type Condition struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
}

// A ContainerStatus is the status of a container.
type ContainerStatus struct {
	Name      string     `json:"name"`
	State     State      `json:"state"`
	Allocated List       `json:"allocatedResources"` // requests that the kubelet has accepted
	Resources *Resources `json:"resources"`          // requests and limits in effect
}

// A State is the state of a container. Both fields are nil while the container waits to start.
type State struct {
	Running    *struct{}   `json:"running"`
	Terminated *Terminated `json:"terminated"`
}

// Terminated is the state of a container that has ended.
type Terminated struct {
	ExitCode int32 `json:"exitCode"`
}

// Names of resources in Kubernetes.
const (
	CPU    = "cpu"
	Memory = "memory"
)

const (
	always    = "Always"
	never     = "Never"
	onFailure = "OnFailure"
)

// HasEnded reports whether all containers of the pod have ended and none will restart.
func (p *Pod) HasEnded() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// mirror is the annotation that the kubelet sets on the mirror pod of a static pod.
const mirror = "kubernetes.io/config.mirror"

// IsMirror reports whether p is the mirror pod of a static pod. The node reports the static pod's containers under the static pod's UID,
// which differs from the mirror pod's UID.
func (p *Pod) IsMirror() bool { return p.Metadata.Annotations[mirror] != "" }

// each calls a function for each container, in start order. passing is true for init containers that end before the next container starts.
func (p *Pod) each(do func(c *Container, passing bool) error) error {
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if err := do(c, c.RestartPolicy != always); err != nil {
			return err
		}
	}
	for i := range p.Spec.Containers {
		if err := do(&p.Spec.Containers[i], false); err != nil {
			return err
		}
	}
	return nil
}

// status returns the status of a container, or nil if the kubelet has not reported one.
func (p *Pod) status(name string) *ContainerStatus {
	for _, all := range [][]ContainerStatus{p.Status.Containers, p.Status.InitContainers} {
		if i := slices.IndexFunc(all, func(s ContainerStatus) bool { return s.Name == name }); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

// hasEnded reports whether a container has ended and will not restart, so that the node has released its CPUs. It is false for init
// containers.
func (p *Pod) hasEnded(c *Container) bool {
	i := slices.IndexFunc(p.Status.Containers, func(s ContainerStatus) bool { return s.Name == c.Name })
	if i < 0 || p.Status.Containers[i].State.Terminated == nil || bool(c.RestartRules) {
		return false
	}
	policy := p.Spec.RestartPolicy
	if c.RestartPolicy != "" {
		policy = c.RestartPolicy
	}
	switch policy {
	case never:
		return true
	case onFailure:
		return p.Status.Containers[i].State.Terminated.ExitCode == 0
	default:
		return false
	}
}
