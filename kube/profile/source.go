package profile

import (
	"slices"
	"strings"

	"github.com/candor-project/candor/kube"
)

// A Source is a source that has a value for a setting of a container.
type Source struct {
	Name  string `json:"source"` // such as "annotation candor.dev/class" or "CPUProfile solvers"
	Value string `json:"value"`
}

// Sources returns the sources that have a value for a setting of a container, in order of precedence. Of the profiles, the
// profile with the strictest value comes first. The value of the first source counts.
func Sources(setting string, p *Pod, c Container, profiles []Profile, namespace, defaults Values) (sources []Source) {
	for _, key := range []string{kube.ContainerKey(setting, c.Name), kube.PodKey(setting)} {
		if value, ok := p.Annotations[key]; ok {
			sources = append(sources, Source{"annotation " + key, value})
		}
	}
	var profileSources []Source
	for i := range profiles {
		if value := profiles[i].values[setting]; value != "" && profiles[i].appliesTo(p, c) {
			profileSources = append(profileSources, Source{"CPUProfile " + profiles[i].Name, value})
		}
	}
	order := strictness[setting]
	slices.SortFunc(profileSources, func(a, b Source) int {
		if by := slices.Index(order, a.Value) - slices.Index(order, b.Value); by != 0 {
			return by
		}
		return strings.Compare(a.Name, b.Name)
	})
	sources = append(sources, profileSources...)
	if value := namespace[setting]; value != "" {
		sources = append(sources, Source{"label " + kube.PodKey(setting) + " of the namespace", value})
	}
	if value := defaults[setting]; value != "" {
		sources = append(sources, Source{"default", value})
	}
	return sources
}
