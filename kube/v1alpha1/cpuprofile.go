package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A CPUProfile sets the settings of containers in its namespace. Annotations of a pod have precedence.
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

	// Spec selects containers and has their settings.
	Spec CPUProfileSpec `json:"spec"`
}

// CPUProfileSpec selects containers and sets their settings. It selects a container if its pod has the labels and its image matches a pattern;
// one of the two can be empty.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || has(self.images)",message="selector or images is required"
// +kubebuilder:validation:XValidation:rule="has(self.class) || has(self.policy) || has(self.topology) || has(self.view) || has(self.burst)",message="no setting: at least one of class, policy, topology, view, burst is required"
type CPUProfileSpec struct {
	// Selector selects pods by their labels; an empty selector selects all pods.
	Selector *PodSelector `json:"selector,omitempty"`
	// Images are patterns of images, in which * matches any characters: "registry.example/spark/*".
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	Images []string `json:"images,omitempty"`

	// The settings have the values of the annotations candor.dev/class, policy and so on; an empty setting is unset.

	// Class is "sensitive" or "flexible".
	// +kubebuilder:validation:Enum=sensitive;flexible
	Class string `json:"class,omitempty"`
	// Policy is the handling of a sensitive container whose view cannot equal its limit.
	// +kubebuilder:validation:Enum=strict;"best-effort"
	Policy string `json:"policy,omitempty"`
	// Topology is the topology policy.
	// +kubebuilder:validation:Enum=prefer;"single-numa";"single-l3";"whole-cores";none
	Topology string `json:"topology,omitempty"`
	// View is "full", files with the visible CPUs besides the affinity, or "affinity".
	// +kubebuilder:validation:Enum=full;affinity
	View string `json:"view,omitempty"`
	// Burst is the short-term CPU use beyond the limit.
	// +kubebuilder:validation:Enum=none;kernel;quota;auto
	Burst string `json:"burst,omitempty"`
}

// A PodSelector is a Kubernetes label selector with bounds on its size. A pod has to meet all requirements.
type PodSelector struct {
	// MatchLabels are labels and their values.
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
	// Values are the values of In and NotIn.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// Selector returns the label selector of client libraries. A nil PodSelector selects no pod.
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
