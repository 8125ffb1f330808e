package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A CPUProfile sets the CPU settings of containers in its namespace. A pod's annotations take precedence over CPUProfiles.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=candor
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.class`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`
// +kubebuilder:printcolumn:name="Topology",type=string,JSONPath=`.spec.topology`
// +kubebuilder:printcolumn:name="View",type=string,JSONPath=`.spec.view`,priority=1
// +kubebuilder:printcolumn:name="Burst",type=string,JSONPath=`.spec.burst`,priority=1
// +kubebuilder:printcolumn:name="Images",type=string,JSONPath=`.spec.images`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CPUProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec selects containers and sets their settings.
	Spec CPUProfileSpec `json:"spec"`
}

// CPUProfileSpec selects containers and sets their settings. It selects a container if selector matches the pod's labels and one of images
// matches the container's image. A missing selector or missing images match everything, but one of the two is required.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || has(self.images)",message="selector or images is required"
// +kubebuilder:validation:XValidation:rule="has(self.class) || has(self.policy) || has(self.topology) || has(self.view) || has(self.burst)",message="no setting: at least one of class, policy, topology, view, burst is required"
type CPUProfileSpec struct {
	// Selector selects pods by their labels. An empty selector selects all pods.
	Selector *PodSelector `json:"selector,omitempty"`
	// Images are patterns of image names, such as "registry.example/spark/*", in which * stands for any number of characters.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	Images []string `json:"images,omitempty"`

	// The following settings have the same values as the annotations candor.dev/class, candor.dev/policy and so on. "" leaves a setting
	// unset.

	// Class is "sensitive" for containers that size themselves by the CPUs they see, or "flexible" for others.
	// +kubebuilder:validation:Enum=sensitive;flexible
	Class string `json:"class,omitempty"`
	// Policy is "strict" to refuse a sensitive container that would see more CPUs than its limit, rounded up, or "best-effort" to accept it.
	// +kubebuilder:validation:Enum=strict;"best-effort"
	Policy string `json:"policy,omitempty"`
	// Topology is the topology policy: the placement preference of a container among NUMA nodes, L3 caches and cores.
	// +kubebuilder:validation:Enum=prefer;"single-numa";"single-l3";"whole-cores";none
	Topology string `json:"topology,omitempty"`
	// View is "affinity" to limit the visible CPUs only by the CPU affinity, "cpu" to replace the files with CPU numbers in /sys and /proc
	// as well, "full" to also replace the files with memory sizes, or "full+stat" to also replace /proc/stat.
	// +kubebuilder:validation:Enum=affinity;cpu;full;"full+stat"
	View string `json:"view,omitempty"`
	// Burst selects how the container can use unused CPU time later, beyond its limit.
	// +kubebuilder:validation:Enum=none;kernel;quota;auto
	Burst string `json:"burst,omitempty"`
}

// A PodSelector is a Kubernetes label selector with bounds on its size. It selects the pods that meet all requirements.
type PodSelector struct {
	// MatchLabels maps names of labels to the required values.
	// +kubebuilder:validation:MaxProperties=64
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// MatchExpressions are requirements on labels.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	MatchExpressions []PodSelectorRequirement `json:"matchExpressions,omitempty"`
}

// A LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// A PodSelectorRequirement is a requirement on a label.
//
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",message="In and NotIn require values, Exists and DoesNotExist accept none"
type PodSelectorRequirement struct {
	// Key is the name of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// Operator relates the label to the values.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`
	// Values are the values for the operators In and NotIn.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// Selector converts s to the selector type of Kubernetes' client libraries. A nil PodSelector selects no pod.
func (s *PodSelector) Selector() (labels.Selector, error) {
	if s == nil {
		return labels.Nothing(), nil
	}
	selector := &metav1.LabelSelector{MatchLabels: make(map[string]string, len(s.MatchLabels))}
	for name, value := range s.MatchLabels {
		selector.MatchLabels[name] = string(value)
	}
	for _, e := range s.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement(e))
	}
	return metav1.LabelSelectorAsSelector(selector)
}

// CPUProfileList is a list of CPUProfiles.
//
// +kubebuilder:object:root=true
type CPUProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CPUProfile `json:"items"`
}
