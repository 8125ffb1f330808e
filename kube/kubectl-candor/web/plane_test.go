package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/candor-project/candor/kube/kubectl-candor/internal/controlplane"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A plane is a real API server with the chart's definitions.
type plane struct {
	config *rest.Config
	admin  kubernetes.Interface
	candor *rest.RESTClient
}

// startPlane starts an API server. It skips the test without the programs.
func startPlane(t testing.TB) *plane {
	t.Helper()
	config := controlplane.Start(t)
	candor, err := restClient(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{config, kubernetes.NewForConfigOrDie(config), candor}
	files, err := filepath.Glob("../../../deploy/helm/candor/crds/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %q", err, files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.admin.CoreV1().RESTClient().Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
			SetHeader("Content-Type", "application/json").Body(object).Do(context.Background()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	controlplane.Until(t, "the definitions are served", func() bool {
		return p.candor.Get().Resource(v1alpha1.NodeCPUs).Do(context.Background()).Error() == nil
	})
	return p
}

// report creates or replaces a report.
func (p *plane) report(ctx context.Context, r *v1alpha1.NodeCPU) error {
	object := *r
	object.Kind, object.APIVersion, object.ResourceVersion = "NodeCPU", v1alpha1.GroupVersion.String(), ""
	text, err := json.Marshal(map[string]any{"apiVersion": object.APIVersion, "kind": object.Kind, "metadata": map[string]any{"name": object.Name}})
	if err != nil {
		return err
	}
	apply := func(text []byte, subresource ...string) error {
		return p.candor.Patch(types.ApplyPatchType).Resource(v1alpha1.NodeCPUs).Name(object.Name).SubResource(subresource...).
			VersionedParams(&metav1.PatchOptions{FieldManager: "agent", Force: new(true)}, metav1.ParameterCodec).Body(text).Do(ctx).Error()
	}
	if object.Status.Counter == 1 {
		if err := apply(text); err != nil {
			return err
		}
	}
	if text, err = json.Marshal(&object); err != nil {
		return err
	}
	return apply(text, "status")
}

// inParallel calls a function for the numbers from 0 to n-1, 16 at a time.
func inParallel(t testing.TB, n int, do func(i int) error) {
	t.Helper()
	var wait sync.WaitGroup
	next, failed := make(chan int), make(chan error, 16)
	for range 16 {
		wait.Go(func() {
			var all error
			for i := range next {
				all = errors.Join(all, do(i))
			}
			failed <- all
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Fatalf("%.500v", err)
		}
	}
}

// TestChartRights: the rights of the chart's ClusterRole suffice for the page, and candor-web changes nothing with them.
func TestChartRights(t *testing.T) {
	p := startPlane(t)
	text, err := os.ReadFile("../../../deploy/helm/testdata/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	isFound := false
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(document, &role); err != nil || role.Kind != "ClusterRole" || role.Name != "candor-web" {
			continue
		}
		isFound = true
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "viewer"}}}
		if _, err := p.admin.RbacV1().ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if !isFound {
		t.Fatal("the chart has no ClusterRole candor-web")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late", Annotations: map[string]string{"candor.dev/class": "sensitive"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "web"}}}}
	if _, err := p.admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.report(t.Context(), reportOf(t, "a", 1500)); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(p.config)
	config.BearerToken = controlplane.ViewerToken
	s, err := New(Options{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.reports.watch(t.Context(), config) }() // an error is a problem of the map
	until(t, "the account has the rights", func() bool {
		select {
		case <-s.reports.synced:
			return s.request("GET", "/api/map", controlplane.AdminToken, "").Code == 200
		default:
			return false
		}
	})
	for _, path := range []string{"/api/node?name=a", "/api/pods?q=late", "/api/pod?namespace=default&name=late"} {
		if w := s.request("GET", path, controlplane.AdminToken, ""); w.Code != 200 || strings.Contains(w.Body.String(), "forbidden") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestReviewsOfAPIServer: a real API server refuses an invalid token and a user without rights, and permits the administrator.
// The rights of a user who gets the role are found after reviewAge.
func TestReviewsOfAPIServer(t *testing.T) {
	p := startPlane(t)
	v := newReviewer(p.admin)
	for _, c := range []struct {
		token string
		want  error
	}{{controlplane.AdminToken, nil}, {controlplane.ViewerToken, errForbidden}, {"invalid", errLogin}} {
		if err := v.check(t.Context(), c.token, listReports, listPods, listNodes); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.token, err, c.want)
		}
	}
	if err := errors.Join(p.report(t.Context(), reportOf(t, "a", 1500)), p.report(t.Context(), reportOf(t, "b"))); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Config: p.config})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := s.reports.watch(t.Context(), s.options.Config); err != nil {
			t.Error(err)
		}
	}()
	<-s.reports.synced
	for token, want := range map[string]int{controlplane.AdminToken: 200, controlplane.ViewerToken: 403, "invalid": 401, "": 401} {
		if w := s.request("GET", "/api/map", token, ""); w.Code != want {
			t.Errorf("%q: %d %s, want %d", token, w.Code, w.Body, want)
		}
	}
	if w := s.request("GET", "/api/node?name=a", controlplane.AdminToken, ""); answer[nodeAnswer](t, w).SVG == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	changed := reportOf(t, "a", 2500)
	changed.Status.Counter = 2
	before := revisionOf(s)
	if err := p.report(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	until(t, "the server has the change", func() bool { return revisionOf(s) > before })
}
