// Package podname parses names of the form namespace/pod/container, in which engines and people name a pod's container.
package podname

import "strings"

// A Name is the name of a container in a cluster. The zero value stands for a container outside of pods.
type Name struct {
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
}

// Parse parses "namespace/pod/container". For other texts it returns the zero value.
func Parse(text string) Name {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Name{}
	}
	return Name{parts[0], parts[1], parts[2]}
}

// String returns namespace/pod/container, or "" for the zero value.
func (n Name) String() string {
	if n == (Name{}) {
		return ""
	}
	return n.Namespace + "/" + n.Pod + "/" + n.Container
}
