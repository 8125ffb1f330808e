package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/topology"
)

// TestPreselectionRefused: other plugins refuse a pod on all preselected nodes because of its anti-affinity.
// The pod goes to another node, without preemption.
func TestPreselectionRefused(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{nodes: 16})
	defer p.clear(t)
	const best, rest = 16, 4
	away := func(pod *v1.Pod) {
		term := v1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	}
	for i := range best {
		name := fmt.Sprintf("best-%02d", i)
		p.addAgent(t, name, "core:8").put()
		p.label(t, name)
		p.addPod(t, "on-"+name, "100m", away, func(pod *v1.Pod) { pod.Spec.NodeName = name })
	}
	for i := range rest { // worse nodes: the pod's fraction must share a CPU with another fraction
		name := fmt.Sprintf("rest-%02d", i)
		n := p.addAgent(t, name, "core:2")
		p.label(t, name)
		n.put(staticContainer("a", 1300))
	}
	p.addPod(t, "web", "500m", ofSensitive(), func(pod *v1.Pod) { pod.Labels = map[string]string{"app": "web"} })
	if web := p.bound(t, "web"); web.Spec.NodeName[:4] != "rest" {
		t.Errorf("web is on %s against its anti-affinity, want a node rest-*", web.Spec.NodeName)
	}
	for i := range best {
		if pod := p.pod(t, fmt.Sprintf("on-best-%02d", i)); pod.DeletionTimestamp != nil {
			t.Errorf("%s was preempted", pod.Name)
		}
	}
}

// label sets the hostname label of a node, the topology key of the anti-affinity.
func (p *plane) label(t *testing.T, name string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"labels": {"kubernetes.io/hostname": %q}}}`, name)
	if _, err := p.client.CoreV1().Nodes().Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestPreselectionOff: a pod with constraints on its nodes gets no preselection.
func TestPreselectionOff(t *testing.T) {
	plain := func() *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1500m")}, Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}}}
	}
	w, ok := plainRequestOf(plain())
	if !ok || w.cpu != 1500 || w.memory != 1<<20 {
		t.Errorf("%+v, %v", w, ok)
	}
	for name, change := range map[string]podOption{
		"node":      func(p *v1.Pod) { p.Spec.NodeName = "n" },
		"selector":  func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
		"affinity":  func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{} },
		"spread":    func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{}} },
		"claim":     func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{}} },
		"group":     func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{} },
		"nominated": func(p *v1.Pod) { p.Status.NominatedNodeName = "n" },
		"disk": func(p *v1.Pod) {
			p.Spec.Volumes[0].VolumeSource = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}
		},
		"port": func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} },
		"device": func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		},
	} {
		pod := plain()
		change(pod)
		if _, ok := plainRequestOf(pod); ok {
			t.Errorf("%s: the pod counts as plain, want no preselection", name)
		}
	}
}

// TestPreselectionByZone: the preselection returns the best nodes of each zone. It skips nodes that are full,
// tainted or unschedulable in kube-scheduler's snapshot.
func TestPreselectionByZone(t *testing.T) {
	c := cluster.New(patience)
	var nodes []fwk.NodeInfo
	zones := []string{"a", "b", "b", "c"}
	for i := range 40 {
		info := framework.NewNodeInfo()
		has := v1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("2")}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{v1.LabelTopologyZone: zones[i%4]}},
			Status: v1.NodeStatus{Capacity: has, Allocatable: has}}
		if i >= 20 {
			node.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}}
		}
		node.Spec.Unschedulable = i == 0
		info.SetNode(node)
		nodes = append(nodes, info)
		m, err := topology.Parse("core:8")
		if err != nil {
			t.Fatal(err)
		}
		n, err := hybrid.NewNode(m, hybrid.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.Report(node.Name, 1, n, time.Now())
	}
	pod, err := cluster.NewPod("u", "default", "web", 1<<20, []cluster.Container{{Name: "app", Request: hybrid.Request{Class: hybrid.Sensitive, Limit: 1500}}})
	if err != nil {
		t.Fatal(err)
	}
	w := &plainRequest{cpu: 1500, memory: 1 << 20, log: klog.Background()}
	var s nodeCache
	found := func(most int) []int {
		best := s.best(c, nodes, pod, w, most)
		slices.Sort(best)
		return best
	}
	untainted := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
	if best := found(60); !slices.Equal(best, untainted) {
		t.Errorf("got %v, want the first 20 nodes without the unschedulable node 0", best)
	}
	count := map[string]int{}
	for _, at := range found(6) {
		count[zones[at%4]]++
	}
	if count["a"] != 2 || count["b"] != 2 || count["c"] != 2 {
		t.Errorf("got %v nodes by zone, want two of each zone", count)
	}
	w.cpu = 9000
	if best := found(60); len(best) != 0 {
		t.Errorf("got %v for a pod of 9 CPUs, want no node: all nodes have 8 CPUs", best)
	}
	w.cpu, w.tolerations = 1500, []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}
	for i := range 2 {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("on-", i), UID: "x"}, Spec: v1.PodSpec{NodeName: "node-1"}}
		info, err := framework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		nodes[1].AddPodInfo(info)
	}
	if best := found(60); len(best) != 38 || slices.Contains(best, 1) {
		t.Errorf("got %v, want also the tainted nodes, without node 1, which has no free pod slot", best)
	}
}
