package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// clusterLimit bounds the total time of the requests to the API server.
const clusterLimit = 700 * time.Millisecond

// A cluster is the cluster of the kubeconfig.
type cluster struct{ client *apiserver.Client }

// clusterVersions compares this candor with the agents, the scheduler and the CRDs of the cluster.
func clusterVersions(s *System) finding {
	if s.Connect == nil {
		if s.wants(UseKubernetes) || len(s.kubelets().all) > 0 {
			return finding{Unknown, "no kubeconfig, so the versions in the cluster are not known", "candor doctor --kubeconfig FILE"}
		}
		return pass("no kubelet and no kubeconfig: this machine is no node")
	}
	client, err := s.Connect()
	if err != nil {
		return finding{Unknown, err.Error(), "candor doctor --kubeconfig FILE"}
	}
	ctx, cancel := s.context(clusterLimit)
	defer cancel()
	c := cluster{client}
	missing, err := c.missingFields(ctx)
	if err != nil {
		return finding{Unknown, err.Error(), "kubectl get crd nodecpus.candor.dev"}
	}
	if len(missing) > 0 {
		return warn("helm show crds CHART | kubectl apply --server-side -f - (docs/install.md)", "the CRD nodecpus.candor.dev is older than this candor: it lacks %s",
			strings.Join(missing[:min(len(missing), 5)], ", "))
	}
	var same, other []string
	for _, w := range []struct{ kind, name string }{{"daemonsets", "candor"}, {"deployments", "candor-scheduler"}} {
		versions, err := c.workloads(ctx, w.kind, w.name)
		if err != nil {
			return finding{Unknown, err.Error(), "kubectl get " + w.kind + " -A -l app.kubernetes.io/name=" + w.name}
		}
		for _, v := range versions {
			if strings.TrimPrefix(v, "v") == strings.TrimPrefix(s.Version, "v") {
				same = append(same, w.name)
			} else {
				other = append(other, fmt.Sprintf("%s %s", w.name, v))
			}
		}
	}
	if len(other) > 0 {
		return warn("upgrade the chart, or install the candor of its version", "this candor is %s, the cluster has %s", s.Version, strings.Join(other, ", "))
	}
	return pass("the CRD has all fields; of version %s: %s", s.Version, orNone(strings.Join(same, ", ")))
}

// workloads returns the versions of the workloads of a kind, such as daemonsets, that Candor's Helm chart has installed under a
// name.
func (c cluster) workloads(ctx context.Context, kind, name string) (versions []string, err error) {
	var list struct {
		Items []struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		} `json:"items"`
	}
	selector := url.QueryEscape("app.kubernetes.io/name=" + name)
	if err := c.client.Get(ctx, "/apis/apps/v1/"+kind+"?limit=100&labelSelector="+selector, &list); err != nil {
		return nil, err
	}
	for _, item := range list.Items {
		versions = append(versions, item.Metadata.Labels["app.kubernetes.io/version"])
	}
	return versions, nil
}

// A crdSchema is the part of a CRD's schema that names fields.
type crdSchema struct {
	Properties map[string]*crdSchema `json:"properties"`
	Items      *crdSchema            `json:"items"`
}

// missingFields returns the fields of this candor's NodeCPU that the cluster's CRD lacks. The API server drops these fields.
func (c cluster) missingFields(ctx context.Context) ([]string, error) {
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
				Schema struct {
					OpenAPI crdSchema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := c.client.Get(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodecpus.candor.dev", &crd); err != nil {
		return nil, err
	}
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Name == v1alpha1.GroupVersion.Version && v.Served {
			return lackingFields(reflect.TypeFor[v1alpha1.NodeCPUStatus](), v.Schema.OpenAPI.Properties["status"], "status"), nil
		}
	}
	return []string{"version " + v1alpha1.GroupVersion.Version}, nil
}

// lackingFields returns the JSON fields of a type that a schema lacks, as paths.
func lackingFields(t reflect.Type, schema *crdSchema, path string) (missing []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case schema == nil:
		return []string{path}
	case t.Kind() == reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		return lackingFields(t.Elem(), schema.Items, path+"[]")
	case t.Kind() != reflect.Struct, reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()):
		return nil
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			missing = append(missing, lackingFields(f.Type, schema, path)...)
		default:
			missing = append(missing, lackingFields(f.Type, schema.Properties[name], path+"."+name)...)
		}
	}
	slices.Sort(missing)
	return missing
}
