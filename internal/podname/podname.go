// Package podname represents the names of containers. A container of a pod has the name namespace/pod/container. Another
// container has its name in the engine.
package podname

import "strings"

// A Name is the name of a container. Outside of pods, it has no namespace and no pod. The zero value stands for a container
// without a name.
type Name struct {
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
}

// Parts is Name, for structs that embed it beside a field Name with the whole name.
type Parts = Name

// PartsOf returns the parts of a container's display name. It returns the zero value if the display name is only the ID or its
// beginning, which engines show for a container without a name.
func PartsOf(name, id string) Name {
	const shortID = 12 // digits
	switch n := Parse(name); {
	case n != (Name{}):
		return n
	case name == id || len(name) == shortID && strings.HasPrefix(id, name):
		return Name{}
	}
	return Name{Container: name}
}

// Parse parses "namespace/pod/container". For other texts it returns the zero value.
func Parse(text string) Name {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Name{}
	}
	return Name{parts[0], parts[1], parts[2]}
}

// String returns namespace/pod/container, or the name of the container outside of pods. It returns "" for the zero value.
func (n Name) String() string {
	if n.Namespace == "" && n.Pod == "" {
		return n.Container
	}
	return n.Namespace + "/" + n.Pod + "/" + n.Container
}
