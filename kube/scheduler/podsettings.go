package scheduler

import (
	"maps"
	"slices"

	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/profile"
)

// podSettings collects the settings of a pod's containers to write them into the pod's annotations. This is necessary because the agent on
// the node can have other defaults, and reads neither profiles nor labels of namespaces.
type podSettings struct {
	annotations map[string]string
	names       []string // names of the containers
	values      map[string]profile.Values
}

func newPodSettings(annotations map[string]string) *podSettings {
	return &podSettings{annotations: annotations, values: map[string]profile.Values{}}
}

// defaultValues are the values of settings without any source. They are written too, because the node can have other defaults.
var defaultValues = profile.Values{"class": "flexible", "policy": "strict", "topology": "prefer"}

// add adds the settings of a container.
func (n *podSettings) add(container string, values profile.Values) {
	all := maps.Clone(defaultValues)
	maps.Copy(all, values)
	n.names, n.values[container] = append(n.names, container), all
}

// missing returns the annotations to add to the pod. A setting with the same value in all containers needs an annotation for the
// whole pod. Other settings need an annotation for each container.
func (n *podSettings) missing() map[string]string {
	missing := map[string]string{}
	for _, setting := range kube.Names() {
		if _, isSet := n.annotations[kube.PodKey(setting)]; isSet {
			continue
		}
		if value, same := n.common(setting); same && value != "" {
			missing[kube.PodKey(setting)] = value
			continue
		}
		for _, name := range n.names {
			key := kube.ContainerKey(setting, name)
			if value := n.values[name][setting]; value != "" && n.annotations[key] == "" {
				missing[key] = value
			}
		}
	}
	return missing
}

// common returns the value of a setting if all containers have the same value, and none has its own annotation.
func (n *podSettings) common(setting string) (value string, same bool) {
	same = !slices.ContainsFunc(n.names, func(name string) bool {
		_, isSet := n.annotations[kube.ContainerKey(setting, name)]
		return isSet || n.values[name][setting] != n.values[n.names[0]][setting]
	})
	if len(n.names) == 0 || !same {
		return "", false
	}
	return n.values[n.names[0]][setting], true
}
