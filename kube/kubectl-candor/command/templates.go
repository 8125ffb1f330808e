package command

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/podcpu"
)

// templates are the annotations of pod templates, by the UID of the workload. candor-scheduler writes all settings of a pod into
// the pod's annotations, so a running pod does not show which of them its author has set. The template does.
type templates map[string]map[string]string

// workloads are the resources whose pods have a template.
var workloads = []string{"apps/v1/replicasets", "apps/v1/statefulsets", "apps/v1/daemonsets", "batch/v1/jobs"}

// readTemplates reads the templates of a namespace. Without the right to read a resource, its pods count with all of their
// annotations, and a note says so.
func readTemplates(ctx context.Context, c apiserver.Reader, namespace string) (templates, []string) {
	all, notes := templates{}, []string{}
	for _, w := range workloads {
		group, resource := w[:strings.LastIndex(w, "/")], w[strings.LastIndex(w, "/")+1:]
		found, err := apiserver.List[struct {
			Metadata podcpu.Metadata
			Spec     struct {
				Template struct{ Metadata podcpu.Metadata }
			}
		}](ctx, c, fmt.Sprintf("/apis/%s/namespaces/%s/%s", group, namespace, resource))
		if err != nil {
			notes = append(notes, fmt.Sprintf("cannot read %s: %v: settings that the scheduler has written into their pods count as set by the author", resource, err))
			continue
		}
		for i := range found {
			all[found[i].Metadata.UID] = found[i].Spec.Template.Metadata.Annotations
		}
	}
	return all, notes
}

// restore removes the settings from a pod's annotations that its template does not have. It does not change a pod without a
// template.
func (t templates) restore(p *podcpu.Pod) {
	for _, owner := range p.Metadata.Owners {
		template, isKnown := t[owner.UID]
		if !isKnown {
			continue
		}
		annotations := maps.Clone(p.Metadata.Annotations)
		maps.DeleteFunc(annotations, func(key, _ string) bool {
			_, isAuthors := template[key]
			return !isAuthors && kube.IsSetting(key)
		})
		p.Metadata.Annotations = annotations
	}
}
