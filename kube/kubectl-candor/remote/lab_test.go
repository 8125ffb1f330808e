package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/candor-project/candor/kube/kubectl-candor/internal/controlplane"
)

// A lab is a real API server whose nodes have no kubelets. It plays their kubelets: each pod on a node succeeds at once, except
// on nodes with a name that begins with "silent". The logs of pods are the names of their nodes, since logs come from kubelets.
type lab struct {
	*Cluster
	config *rest.Config
	admin  kubernetes.Interface
}

func newLab(t *testing.T) *lab {
	t.Helper()
	config := controlplane.Start(t)
	l := &lab{config: config, admin: kubernetes.NewForConfigOrDie(config)}
	if _, err := l.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tools"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.Cluster = l.as(t, config)
	factory := informers.NewSharedInformerFactory(l.admin, 0)
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		p := object.(*corev1.Pod)
		s := status(p.Spec.NodeName)
		if s == nil || p.Status.StartTime != nil {
			return
		}
		text, err := json.Marshal(map[string]any{"status": s})
		if err == nil {
			_, err = l.admin.CoreV1().Pods(p.Namespace).Patch(t.Context(), p.Name, types.MergePatchType, text, metav1.PatchOptions{}, "status")
		}
		if err != nil && !apierrors.IsNotFound(err) && t.Context().Err() == nil {
			t.Error(err)
		}
	}}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	return l
}

// as returns the cluster with the rights of a user. Logs have the name of the pod.
func (l *lab) as(t *testing.T, config *rest.Config) *Cluster {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	c.log = func(_ context.Context, at Container, _ int64) ([]byte, error) { return []byte(at.Pod), nil }
	return c
}

// addNodes creates nodes that are ready.
func (l *lab) addNodes(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		n, err := l.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
			_, err = l.admin.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// podCount returns the number of pods in the namespace of the pods.
func (l *lab) podCount(t *testing.T) int {
	t.Helper()
	list, err := l.admin.CoreV1().Pods("tools").List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// TestThousandNodes: of 1,000 nodes, 10 do not answer. The others answer within 30 s, and no pod is left.
func TestThousandNodes(t *testing.T) {
	l := newLab(t)
	var names []string
	for i := range 1000 {
		name := fmt.Sprintf("node-%d", i)
		if i%100 == 0 {
			name = fmt.Sprintf("silent-%d", i)
		}
		names = append(names, name)
	}
	l.addNodes(t, names...)
	nodes, err := l.Nodes(t.Context(), "")
	if err != nil || len(nodes) != 1000 {
		t.Fatalf("%v, %d nodes", err, len(nodes))
	}
	job := &Job{Args: []string{"audit"}, MaxOutput: 1 << 20, Timeout: 12 * time.Second,
		Pods: &Pods{Namespace: "tools", Image: "candor:test", Timeout: time.Minute, StartTimeout: 15 * time.Second}}
	started := time.Now()
	answers, err := l.Run(t.Context(), nodes, nil, job)
	took := time.Since(started)
	if err != nil {
		t.Fatal(err)
	}
	var silent []string
	for _, a := range answers {
		if a.Err != nil {
			silent = append(silent, a.Node)
		}
	}
	t.Logf("1,000 nodes: %v", took)
	if len(silent) != 10 || slices.ContainsFunc(silent, func(name string) bool { return !strings.HasPrefix(name, "silent-") }) || took > 30*time.Second {
		t.Errorf("%d without answer (%q) after %v; want the 10 silent ones within 30s", len(silent), silent, took)
	}
	if n := l.podCount(t); n != 0 {
		t.Errorf("%d pods are left", n)
	}
}

// TestPodIsAccepted: the API server accepts the pod, also for a cordoned node, and an interrupted run deletes it. A pod that a
// killed run has left is deleted by the next run.
func TestPodIsAccepted(t *testing.T) {
	l := newLab(t)
	l.addNodes(t, "node-1", "silent-1")
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	job := &Job{Args: []string{"audit"}, MaxOutput: 1 << 20, Timeout: time.Second, Pods: &Pods{Namespace: "tools", Image: "candor:test", Timeout: time.Minute, StartTimeout: time.Minute}}
	go func() {
		controlplane.Until(t, "two pods", func() bool { return l.podCount(t) == 2 })
		cancel(cause)
	}()
	nodes := nodesOf("node-1", "silent-1")
	answers, err := l.Run(ctx, nodes, nil, job)
	if err != nil || !errors.Is(answers[1].Err, cause) || l.podCount(t) != 0 {
		t.Errorf("%v, %+v, %d pods left", err, answers, l.podCount(t))
	}
	orphan, err := l.admin.CoreV1().Pods("tools").Create(t.Context(), job.Pods.pod("node-1", "killed", []string{"audit"}), metav1.CreateOptions{})
	if err != nil || *orphan.Spec.ActiveDeadlineSeconds != podDeadline || orphan.Spec.NodeName != "node-1" {
		t.Fatalf("%v, %+v", err, orphan)
	}
	controlplane.Until(t, "the pod of the killed run has ended and is deleted", func() bool {
		n, err := l.DeleteEnded(t.Context(), "tools")
		return err == nil && n == 1
	})
	if l.podCount(t) != 0 {
		t.Errorf("%d pods are left", l.podCount(t))
	}
}

// adminRole returns the ClusterRole candor-admin of the chart.
func adminRole(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/helm/testdata/default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal(document, role); err == nil && role.Kind == "ClusterRole" && role.Name == "candor-admin" {
			return role
		}
	}
	t.Fatal("the chart has no ClusterRole candor-admin")
	return nil
}

// TestRights: a namespace of the PodSecurity level baseline refuses the pods, with the next step. A user without rights gets an
// error for all nodes at once.
func TestRights(t *testing.T) {
	l := newLab(t)
	l.addNodes(t, "node-1", "node-2")
	job := &Job{Args: []string{"audit"}, MaxOutput: 1 << 20, Timeout: time.Second, Pods: &Pods{Namespace: "strict", Image: "candor:test", Timeout: time.Minute, StartTimeout: time.Minute}}
	strict := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}}}
	if _, err := l.admin.CoreV1().Namespaces().Create(t.Context(), strict, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(t.Context(), nodesOf("node-1", "node-2"), nil, job); err == nil || !strings.Contains(err.Error(), "use --namespace with a namespace of the PodSecurity level privileged") {
		t.Errorf("%v, want the next step", err)
	}
	config := rest.CopyConfig(l.config)
	config.BearerToken = controlplane.OperatorToken
	job.Pods.Namespace = "tools"
	operator := l.as(t, config)
	if _, err := operator.Run(t.Context(), nodesOf("node-1"), nil, job); !apierrors.IsForbidden(err) {
		t.Errorf("%v, want Forbidden", err)
	}
	// The rights of the chart's ClusterRole candor-admin suffice.
	role := adminRole(t)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "operator"}}}
	if _, err := l.admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	controlplane.Until(t, "the operator has the rights", func() bool {
		answers, err := operator.Run(t.Context(), nodesOf("node-1"), nil, job)
		return err == nil && answers[0].Err == nil
	})
	if n, err := operator.DeleteEnded(t.Context(), "tools"); err != nil || n != 0 || l.podCount(t) != 0 {
		t.Errorf("%v, deleted %d, %d pods left", err, n, l.podCount(t))
	}
}
