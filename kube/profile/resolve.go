package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/candor-project/candor/kube"
)

// A Pod has the relevant fields of a pod.
type Pod struct {
	Annotations, Labels map[string]string
}

// A Container is a container of a pod, including init containers.
type Container struct {
	Name, Image string
}

// Resolved holds the settings of a container.
type Resolved struct {
	Values   Values        // from all sources
	Settings kube.Settings // the same, read
	// Conflicts describe, a line each, differences between profiles for the container; the stricter value counts.
	Conflicts []string
}

// Resolve applies the sources in their order: the container's annotations, the pod's annotations, the profiles of its namespace, the
// namespace's labels (Namespace), the defaults. The error is an error of the annotations or the defaults.
func Resolve(p *Pod, c Container, profiles []Profile, namespace, defaults Values) (Resolved, error) {
	if _, err := kube.Parse(p.Annotations); err != nil {
		return Resolved{}, err
	}
	r := Resolved{Values: Values{}}
	r.Values.add(said(p.Annotations, c.Name))
	r.profiles(p, c, profiles)
	r.Values.add(namespace)
	r.Values.add(defaults)
	var err error
	r.Settings, err = r.Values.settings()
	return r, err
}

// add adds the values of a source of lower precedence.
func (v Values) add(below Values) {
	for name, value := range below {
		if _, is := v[name]; !is {
			v[name] = value
		}
	}
}

// said returns the annotations of a container.
func said(annotations map[string]string, container string) Values {
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

// profiles adds the values of the profiles that apply to the container, in the order of their names.
func (r *Resolved) profiles(p *Pod, c Container, all []Profile) {
	var meant []*Profile
	for i := range all {
		if all[i].means(p, c) {
			meant = append(meant, &all[i])
		}
	}
	slices.SortFunc(meant, func(a, b *Profile) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range settled {
		if _, is := r.Values[name]; is {
			continue // the pod has the setting: profiles do not apply
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

// strictness has the values of the settings for which profiles may differ, the strictest first.
var strictness = map[string][]string{
	"class":    {"sensitive", "flexible"},
	"policy":   {"strict", "best-effort"},
	"topology": {"whole-cores", "single-l3", "single-numa", "prefer", "none"},
	"view":     {"full", "affinity"},
	"burst":    {"none", "kernel", "quota", "auto"},
}

// strictest returns the strictest value of a setting in the profiles; "" if there is none.
func strictest(name string, profiles []*Profile) (value, conflict string) {
	order := strictness[name]
	var by, against string // profiles
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

// Namespace reads the settings of a namespace's labels, which have the names of a pod's annotations: candor.dev/class.
func Namespace(labels map[string]string) (Values, error) {
	a, err := kube.Parse(labels)
	if err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	if len(a.Containers) > 0 {
		return nil, fmt.Errorf("namespace: a label concerns a single container: use %s", kube.PodKey("NAME"))
	}
	return said(labels, ""), nil
}
