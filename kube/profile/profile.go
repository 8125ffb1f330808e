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

// Values maps names of settings to their values, in the format of annotations.
type Values map[string]string

// A Profile is a parsed CPUProfile.
type Profile struct {
	Name     string
	selector labels.Selector
	images   []string // patterns; empty: the profile applies to all images
	values   Values
}

// maxImages bounds the number of image patterns in a profile.
const maxImages = 64

// Read parses a CPUProfile. An error names the invalid field.
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
		return p, fmt.Errorf("no setting: must have one of %s", strings.Join(settingNames, ", "))
	}
	_, err = p.values.settings()
	return p, err
}

// settingNames lists the settings that a profile can have.
var settingNames = []string{"class", "policy", "topology", "view", "burst"}

// valuesOf returns the settings that the profile sets.
func valuesOf(spec *v1alpha1.CPUProfileSpec) Values {
	all := Values{"class": spec.Class, "policy": spec.Policy, "topology": spec.Topology, "view": spec.View, "burst": spec.Burst}
	for name, value := range all {
		if value == "" {
			delete(all, name)
		}
	}
	return all
}

// settings parses the values in alphabetical order, so that it always returns the same error if several values are
// invalid.
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

// appliesTo reports whether the profile applies to a container of a pod.
func (p *Profile) appliesTo(pod *Pod, c Container) bool {
	if !p.selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	return len(p.images) == 0 || slices.ContainsFunc(p.images, func(pattern string) bool { return matches(pattern, c.Image) })
}

// matches reports whether a text matches a pattern, in which * stands for any number of characters.
func matches(pattern, text string) bool {
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
