package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/candor-project/candor/kube"
)

// A Pod holds the annotations and labels of a pod.
type Pod struct {
	Annotations, Labels map[string]string
}

// A Container is a container or init container of a pod.
type Container struct {
	Name, Image string
}

// Resolved holds the settings of a container, merged from all sources.
type Resolved struct {
	Values   Values        // as text
	Settings kube.Settings // the same settings, parsed
	// Conflicts has a line for each setting for which profiles have different values. Settings has the strictest of these values.
	Conflicts []string
}

// Resolve merges the settings of a container. In order of precedence, the sources are annotations for the container, annotations for the
// whole pod, the profiles and the labels (see Namespace) of the pod's namespace, and the defaults. An error is about the annotations or the
// defaults, because profiles and labels were checked before.
func Resolve(p *Pod, c Container, profiles []Profile, namespace, defaults Values) (Resolved, error) {
	if _, err := kube.Parse(p.Annotations); err != nil {
		return Resolved{}, err
	}
	r := Resolved{Values: Values{}}
	r.Values.add(annotated(p.Annotations, c.Name))
	r.addProfiles(p, c, profiles)
	r.Values.add(namespace)
	r.Values.add(defaults)
	var err error
	r.Settings, err = r.Values.settings()
	return r, err
}

// add copies settings from a source of lower precedence (below) if v lacks them.
func (v Values) add(below Values) {
	for name, value := range below {
		if _, is := v[name]; !is {
			v[name] = value
		}
	}
}

// annotated returns the settings of a container in annotations: for each setting, the annotation for the container or else for the whole
// pod.
func annotated(annotations map[string]string, container string) Values {
	v := Values{}
	for _, name := range kube.Names() {
		if value, ok := annotations[kube.ContainerKey(name, container)]; ok {
			v[name] = value
		} else if value, ok := annotations[kube.PodKey(name)]; ok {
			v[name] = value
		}
	}
	return v
}

// addProfiles adds the values of the profiles that apply to the container. It sorts the profiles by name, so that the conflicts do not
// depend on the order in which the caller lists the profiles.
func (r *Resolved) addProfiles(p *Pod, c Container, all []Profile) {
	var meant []*Profile
	for i := range all {
		if all[i].appliesTo(p, c) {
			meant = append(meant, &all[i])
		}
	}
	slices.SortFunc(meant, func(a, b *Profile) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range settingNames {
		if _, is := r.Values[name]; is {
			continue // annotations precede profiles
		}
		value, conflict := strictest(name, meant)
		if value != "" {
			r.Values[name] = value
		}
		if conflict != "" {
			r.Conflicts = append(r.Conflicts, conflict)
		}
	}
}

// strictness maps the name of a setting to its values, the strictest first.
var strictness = map[string][]string{
	"class":    {"sensitive", "flexible"},
	"policy":   {"strict", "best-effort"},
	"topology": {"whole-cores", "single-l3", "single-numa", "prefer", "none"},
	"view":     {"full+stat", "full", "cpu", "affinity"},
	"burst":    {"none", "kernel", "quota", "auto"},
}

// strictest returns the strictest value of a setting in the profiles, or "" if no profile sets it. conflict describes a difference between
// profiles, or is "".
func strictest(name string, profiles []*Profile) (value, conflict string) {
	order := strictness[name]
	var by, against string // names of the profile with the strictest value and of a profile with another value
	for _, p := range profiles {
		v, says := p.values[name]
		switch {
		case !says || v == value:
		case value == "":
			value, by = v, p.Name
		case slices.Index(order, v) < slices.Index(order, value):
			value, by, against = v, p.Name, by
		default:
			against = p.Name
		}
	}
	if against != "" {
		conflict = fmt.Sprintf("CPUProfiles %s and %s differ in %s: %s, the stricter, counts", by, against, name, value)
	}
	return value, conflict
}

// Namespace reads settings from the labels of a namespace. The labels have the same names as the annotations of pods, such as
// candor.dev/class.
func Namespace(labels map[string]string) (Values, error) {
	a, err := kube.Parse(labels)
	if err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	if len(a.Containers) > 0 {
		return nil, fmt.Errorf("namespace: a label concerns a single container: use %s", kube.PodKey("NAME"))
	}
	return annotated(labels, ""), nil
}
