package profile

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/candor-project/candor/kube/v1alpha1"
)

// kind is the kind of profiles in manifests.
const kind = "CPUProfile"

// A manifest is the manifest of a CPUProfile in YAML.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Selector *labelSelector `yaml:",omitempty"`
		Images   []string       `yaml:",omitempty"`
		Class    string
	}
}

type labelSelector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// Manifest returns the manifest of a CPUProfile that sets the class of containers. The profile applies to containers whose pods have the
// labels and whose images match a pattern. Labels or images can be empty, but not both. An error names the invalid value.
func Manifest(name string, labels map[string]string, images []string, class string) ([]byte, error) {
	if wrong := validation.IsDNS1123Subdomain(name); wrong != nil {
		return nil, fmt.Errorf("name of a CPUProfile %.60q: must be lower case letters, digits, . and -", name)
	}
	spec := v1alpha1.CPUProfileSpec{Images: images, Class: class}
	m := manifest{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}
	m.Metadata.Name, m.Spec.Images, m.Spec.Class = name, images, class
	if len(labels) > 0 {
		spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{}}
		for label, value := range labels {
			spec.Selector.MatchLabels[label] = v1alpha1.LabelValue(value)
		}
		m.Spec.Selector = &labelSelector{labels}
	}
	if _, err := read(&spec); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2) // as kubectl does
	err := e.Encode(m)
	return text.Bytes(), err
}

// IsManifest reports whether a text is YAML of kind CPUProfile. It does not check the other fields.
func IsManifest(text []byte) bool {
	var m manifest
	return yaml.Unmarshal(text, &m) == nil && m.Kind == kind
}
