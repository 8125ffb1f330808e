// Package podname takes the name of a pod's container apart: namespace/pod/container, as
// engines and people write it.
package podname

import "strings"

// A Name is a container's name in a cluster. The zero value is that of a container in no pod.
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

// String is the name as Parse takes it, "" for none.
func (n Name) String() string {
	if n == (Name{}) {
		return ""
	}
	return n.Namespace + "/" + n.Pod + "/" + n.Container
}
