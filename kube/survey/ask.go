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

// ReadDemand computes the demand of a pod from the pod's annotations. It also reads and applies the labels and the profiles of the
// pod's namespace.
func ReadDemand(ctx context.Context, c *apiserver.Client, p *podcpu.Pod) (*Demand, error) {
	var notes, unseen []string
	beside := podcpu.Context{}
	name := p.Metadata.Namespace
	var namespace struct{ Metadata podcpu.Metadata }
	err := c.Get(ctx, "/api/v1/namespaces/"+name, &namespace)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("no namespace %.63q", name)
	case err != nil:
		return nil, err
	}
	if beside.Namespace, err = profile.Namespace(namespace.Metadata.Labels); err != nil {
		notes = append(notes, err.Error()+": its labels are passed over")
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
			notes = append(notes, err.Error()+": it is passed over")
			continue
		}
		beside.Profiles = append(beside.Profiles, read)
	}
	asked, err := podcpu.Read(p, beside)
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct{ path, name, does string }{
		{"limitranges", "LimitRange", "its defaults and bounds"},
		{"resourcequotas", "ResourceQuota", "what it leaves"},
	} {
		unseen = append(unseen, unreadObjects(ctx, c, name, kind.path, kind.name, kind.does)...)
	}
	notes = append(append(notes, asked.Conflicts...), defaultClassNotes(asked)...)
	return &Demand{asked, notes, append(unseen, ignoredFields(p)...)}, nil
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
func unreadObjects(ctx context.Context, c *apiserver.Client, namespace, path, kind, does string) []string {
	all, err := apiserver.List[struct{}](ctx, c, "/api/v1/namespaces/"+namespace+"/"+path)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%ss of the namespace: %v", kind, err)}
	case len(all) > 0:
		return []string{fmt.Sprintf("%d %s of the namespace: %s", len(all), kind, does)}
	}
	return nil
}
