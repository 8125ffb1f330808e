package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A CPUProfile sets the settings of containers in its namespace whose pods do not set them.
type CPUProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CPUProfileSpec `json:"spec"`
}

// CPUProfileSpec selects containers and sets their settings. It selects a container if its pod has the labels and its image matches a pattern;
// one of the two can be empty.
type CPUProfileSpec struct {
	// Selector chooses pods by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Images are patterns of images, in which * matches any characters: "registry.example/spark/*".
	Images []string `json:"images,omitempty"`

	// Settings of the containers, with the values of the annotations candor.dev/class, policy and so on. Empty settings are unset.

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
