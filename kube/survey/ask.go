package survey

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/profile"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A Demand is the demand of a pod, with the settings that ReadDemand found.
type Demand struct {
	*podcpu.Demand
	Notes  []string // remarks about the settings, a line each
	Unread []string // facts that affect the pod but are not evaluated, a line each
}

// Sources are the sources of settings in a namespace.
type Sources struct {
	podcpu.Context
	Notes []string // a line for each source that cannot be parsed; it is ignored
}

// ReadSources reads the labels and the profiles of a namespace.
func ReadSources(ctx context.Context, c apiserver.Reader, name string) (*Sources, error) {
	s := &Sources{}
	var namespace struct{ Metadata podcpu.Metadata }
	err := c.Get(ctx, "/api/v1/namespaces/"+name, &namespace)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("no namespace %.63q", name)
	case err != nil:
		return nil, err
	}
	if s.Namespace, err = profile.Namespace(namespace.Metadata.Labels); err != nil {
		s.Notes = append(s.Notes, err.Error()+": its labels are passed over")
	}
	profiles, err := apiserver.List[v1alpha1.CPUProfile](ctx, c, "/apis/"+v1alpha1.GroupVersion.String()+"/namespaces/"+name+"/"+v1alpha1.CPUProfiles)
	if apierrors.IsNotFound(err) {
		return nil, ErrNoDefinitions
	}
	if err != nil {
		return nil, err
	}
	for i := range profiles {
		read, err := profile.Read(&profiles[i])
		if err != nil {
			s.Notes = append(s.Notes, err.Error()+": it is passed over")
			continue
		}
		s.Profiles = append(s.Profiles, read)
	}
	return s, nil
}

// ReadDemand computes the demand of a pod from the pod's annotations. It also reads and applies the labels and the profiles of
// the pod's namespace.
func ReadDemand(ctx context.Context, c apiserver.Reader, p *podcpu.Pod) (*Demand, error) {
	name := p.Metadata.Namespace
	beside, err := ReadSources(ctx, c, name)
	if err != nil {
		return nil, err
	}
	asked, err := podcpu.Read(p, beside.Context)
	if err != nil {
		return nil, err
	}
	notes := append(append(beside.Notes, asked.Conflicts...), defaultClassNotes(asked)...)
	return &Demand{asked, notes, ReadIgnored(ctx, c, p)}, nil
}

// ReadIgnored returns the facts that affect a pod but are not evaluated, a line each.
func ReadIgnored(ctx context.Context, c apiserver.Reader, p *podcpu.Pod) (unseen []string) {
	for _, kind := range []struct{ path, name, does string }{
		{"limitranges", "LimitRange", "its defaults and bounds"},
		{"resourcequotas", "ResourceQuota", "what it leaves"},
	} {
		unseen = append(unseen, unreadObjects(ctx, c, p.Metadata.Namespace, kind.path, kind.name, kind.does)...)
	}
	return append(unseen, ignoredFields(p)...)
}

// defaultClassNotes returns a remark for each container whose class no source sets.
func defaultClassNotes(asked *podcpu.Demand) (lines []string) {
	for _, c := range asked.Containers {
		if c.Values["class"] == "" {
			lines = append(lines, fmt.Sprintf("no source sets the class of container %s: it is flexible, unless the scheduler has another default", c.Container))
		}
	}
	return lines
}

// unreadObjects returns a remark if the namespace has objects of a kind that can affect the pod.
func unreadObjects(ctx context.Context, c apiserver.Reader, namespace, path, kind, does string) []string {
	all, err := apiserver.List[struct{}](ctx, c, "/api/v1/namespaces/"+namespace+"/"+path)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%ss of the namespace: %v", kind, err)}
	case len(all) > 0:
		return []string{fmt.Sprintf("%d %s of the namespace: %s", len(all), kind, does)}
	}
	return nil
}
