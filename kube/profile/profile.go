package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// Values are the settings of a source: values by the names of settings, as in annotations.
type Values map[string]string

// A Profile is a CPUProfile that has been read.
type Profile struct {
	Name     string
	selector labels.Selector
	images   []string // none: any
	values   Values
}

// maxImages bounds the patterns of a profile.
const maxImages = 64

// Read reads a CPUProfile. The error names an invalid field.
func Read(p *v1alpha1.CPUProfile) (Profile, error) {
	read, err := read(&p.Spec)
	if err != nil {
		return Profile{}, fmt.Errorf("CPUProfile %.253q: %w", p.Name, err)
	}
	read.Name = p.Name
	return read, nil
}

func read(spec *v1alpha1.CPUProfileSpec) (p Profile, err error) {
	if spec.Selector == nil && len(spec.Images) == 0 {
		return p, errors.New("must have a selector of pods, patterns of images, or both")
	}
	p.selector = labels.Everything()
	if spec.Selector != nil {
		if p.selector, err = spec.Selector.Selector(); err != nil {
			return p, fmt.Errorf("selector: %w", err)
		}
	}
	if len(spec.Images) > maxImages || slices.Contains(spec.Images, "") {
		return p, fmt.Errorf("images: must be 1 to %d patterns, none of them empty", maxImages)
	}
	p.images = spec.Images
	p.values = valuesOf(spec)
	if len(p.values) == 0 {
		return p, fmt.Errorf("no setting: must have one of %s", strings.Join(settled, ", "))
	}
	_, err = p.values.settings()
	return p, err
}

// settled are the settings of a profile, in the order of messages.
var settled = []string{"class", "policy", "topology", "view", "burst"}

// valuesOf returns the settings of a profile.
func valuesOf(spec *v1alpha1.CPUProfileSpec) Values {
	all := Values{"class": spec.Class, "policy": spec.Policy, "topology": spec.Topology, "view": spec.View, "burst": spec.Burst}
	for name, value := range all {
		if value == "" {
			delete(all, name)
		}
	}
	return all
}

// settings parses the values. Of several errors it always returns the same.
func (v Values) settings() (s kube.Settings, err error) {
	for _, name := range v.names() {
		if err := s.Set(name, v[name]); err != nil {
			return kube.Settings{}, err
		}
	}
	return s, nil
}

func (v Values) names() []string {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// means reports whether a profile applies to a container.
func (p *Profile) means(pod *Pod, c Container) bool {
	if !p.selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	return len(p.images) == 0 || slices.ContainsFunc(p.images, func(pattern string) bool { return fits(pattern, c.Image) })
}

// fits reports whether a text matches a pattern, in which * matches any characters.
func fits(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	text, begins := strings.CutPrefix(text, parts[0])
	if len(parts) == 1 || !begins {
		return begins && text == ""
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, last)
}
