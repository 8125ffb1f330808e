package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A CPUProfile says what containers of its namespace are whose pods do not say it themselves.
type CPUProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CPUProfileSpec `json:"spec"`
}

// CPUProfileSpec says which containers are meant, and what they are. A container is meant if its pod has the labels and
// its image fits one of the patterns; one of the two may be left out.
type CPUProfileSpec struct {
	// Selector chooses pods by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Images are patterns of images, in which * stands for any characters: "registry.example/spark/*".
	Images []string `json:"images,omitempty"`

	// What the containers are, by the words of the annotations candor.dev/class, policy and so on. What is empty is not said.

	Class    string `json:"class,omitempty"`
	Policy   string `json:"policy,omitempty"`
	Topology string `json:"topology,omitempty"`
	View     string `json:"view,omitempty"`
	Burst    string `json:"burst,omitempty"`
}

// CPUProfileList is a list of them.
type CPUProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CPUProfile `json:"items"`
}
