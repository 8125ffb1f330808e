package scheduler

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// TestListen: the informers pass reports, bound and deleted pods, and recreated nodes to the plugin's
// cluster.
func TestListen(t *testing.T) {
	reports := v1alpha1.GroupVersion.WithResource(v1alpha1.NodeCPUs)
	client := fake.NewClientset()
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		reports: "NodeCPUList", v1alpha1.GroupVersion.WithResource(v1alpha1.CPUProfiles): "CPUProfileList"})
	s := &shared{cluster: cluster.New(time.Hour), now: time.Now, startedAt: time.Now(), log: klog.Background()}
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := s.listen(t.Context(), factory, dynamicinformer.NewDynamicSharedInformerFactory(objects, 0)); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if !s.awaitSync(t.Context()) {
		t.Fatal(errNotSynced)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	report := func(version int, uid string) {
		t.Helper()
		u := newReport(t, version)
		u.SetAPIVersion(v1alpha1.GroupVersion.String())
		u.SetKind("NodeCPU")
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: types.UID(uid)}})
		var err error
		if version == 1 {
			_, err = objects.Resource(reports).Create(t.Context(), u, metav1.CreateOptions{})
		} else {
			_, err = objects.Resource(reports).Update(t.Context(), u, metav1.UpdateOptions{})
		}
		must(err)
	}
	addNode := func(uid string) {
		t.Helper()
		_, err := client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: types.UID(uid)}}, metav1.CreateOptions{})
		must(err)
	}
	totals := func(step string, want cluster.Totals) {
		t.Helper()
		until(t, step, func() bool { return s.cluster.Totals() == want })
	}
	report(1, "first")
	totals("a report", cluster.Totals{Reporting: 1})
	addNode("second")
	totals("the report is of a former node", cluster.Totals{})
	report(2, "second")
	totals("the report is of the current node", cluster.Totals{Reporting: 1})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "web"}, Spec: v1.PodSpec{NodeName: "n", Containers: []v1.Container{container("app", "1")}}}
	_, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	must(err)
	totals("a pod", cluster.Totals{Reporting: 1, Reserved: 1})
	must(client.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	totals("the pod is deleted", cluster.Totals{Reporting: 1})
	must(objects.Resource(reports).Delete(t.Context(), "n", metav1.DeleteOptions{}))
	totals("the report is deleted", cluster.Totals{})
	must(client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}))
	until(t, "the node is deleted", func() bool { _, err := s.nodes.Get("n"); return err != nil })
	s.reconcile()
	if got := s.cluster.Versions(); len(got) != 0 {
		t.Errorf("versions %v remain, want none", got)
	}
}
