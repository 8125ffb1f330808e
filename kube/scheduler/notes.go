package scheduler

import (
	"maps"
	"slices"

	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/profile"
)

// notes collects the settings of containers for their pod: its node has other defaults, and does not read profiles or namespaces.
type notes struct {
	annotations map[string]string
	names       []string // of the containers
	values      map[string]profile.Values
}

func newNotes(annotations map[string]string) *notes {
	return &notes{annotations: annotations, values: map[string]profile.Values{}}
}

// otherwise are the default values that are written as well.
var otherwise = profile.Values{"class": "flexible", "policy": "strict", "topology": "prefer"}

// add adds the settings of a container.
func (n *notes) add(container string, values profile.Values) {
	all := maps.Clone(otherwise)
	maps.Copy(all, values)
	n.names, n.values[container] = append(n.names, container), all
}

// all returns the annotations that the pod lacks: an annotation for the pod if its value holds for all containers, otherwise an annotation
// for each container.
func (n *notes) all() map[string]string {
	lacking := map[string]string{}
	for _, setting := range kube.Names() {
		if _, said := n.annotations[kube.PodKey(setting)]; said {
			continue
		}
		if value, same := n.common(setting); same && value != "" {
			lacking[kube.PodKey(setting)] = value
			continue
		}
		for _, name := range n.names {
			key := kube.ContainerKey(setting, name)
			if value := n.values[name][setting]; value != "" && n.annotations[key] == "" {
				lacking[key] = value
			}
		}
	}
	return lacking
}

// common returns the value of a setting that is the same for all containers without an annotation.
func (n *notes) common(setting string) (value string, same bool) {
	same = !slices.ContainsFunc(n.names, func(name string) bool {
		_, said := n.annotations[kube.ContainerKey(setting, name)]
		return said || n.values[name][setting] != n.values[n.names[0]][setting]
	})
	if len(n.names) == 0 || !same {
		return "", false
	}
	return n.values[n.names[0]][setting], true
}
