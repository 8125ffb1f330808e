package bench

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	kubetopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubecpuset "k8s.io/utils/cpuset"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// kubelet is the kubelet's static CPU manager policy with its default options, and the measured pod.
//
// As for Candor, the benchmark measures the decision of the policy and its state in memory. It omits the other costs
// of the kubelet, in the kubelet's favor: the checkpoint file, the log (discarded), the metrics (not registered, so
// that counting does nothing), the hints of the topology manager (whose default policy is "none"), and the reconcile
// loop that writes the cpusets.
type kubelet struct {
	log    klog.Logger
	policy cpumanager.Policy
	memory state.State
	pod    *v1.Pod
}

// newKubelet returns an allocator whose policy has containers on the scene's CPUs, for a pod with this limit.
func newKubelet(t testing.TB, s scene, limit hybrid.Milli) allocator {
	k := &kubelet{log: logr.Discard(), pod: guaranteedPod("new", limit)}
	k.memory = state.NewMemoryState(k.log)
	free := s.machine.Online
	for i, cpus := range s.held {
		pod := guaranteedPod(fmt.Sprint("held", i), hybrid.Milli(1000*cpus.Count()))
		k.memory.SetCPUSet(string(pod.UID), pod.Spec.Containers[0].Name, kubecpuset.New(cpus.Slice()...))
		free.RemoveAll(&cpus)
	}
	k.memory.SetDefaultCPUSet(kubecpuset.New(free.Slice()...))

	var err error
	none := topologymanager.NewFakeManager(k.log)
	k.policy, err = cpumanager.NewStaticPolicy(k.log, kubeTopology(s.machine), 0, kubecpuset.New(), none, nil)
	if err == nil {
		err = k.policy.Start(k.log, k.memory) // checks the state against the topology
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// kubeTopology describes a machine as kubelet's topology.Discover does: the ID of a core is its lowest CPU.
func kubeTopology(m *topology.Machine) *kubetopology.CPUTopology {
	details := kubetopology.CPUDetails{}
	for _, c := range m.CPUs {
		details[c.ID] = kubetopology.CPUInfo{NUMANodeID: c.Node, SocketID: c.Socket, CoreID: m.Cores[c.Core].CPUs.First(), UncoreCacheID: c.L3}
	}
	return &kubetopology.CPUTopology{
		NumCPUs: len(m.CPUs), NumCores: len(m.Cores), NumUncoreCache: len(m.L3s),
		NumSockets: len(m.Sockets), NumNUMANodes: len(m.Nodes), CPUDetails: details,
	}
}

// guaranteedPod returns a pod as kubelet gets it from the API server, with a single container and its QoS
// class.
func guaranteedPod(name string, limit hybrid.Milli) *v1.Pod {
	amounts := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse(limit.String()),
		v1.ResourceMemory: resource.MustParse("1Gi"),
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name:      "main",
			Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts},
		}}},
		Status: v1.PodStatus{QOSClass: v1.PodQOSGuaranteed},
	}
}

func (k *kubelet) allocate() error {
	return k.policy.Allocate(k.log, k.memory, k.pod, &k.pod.Spec.Containers[0], lifecycle.AddOperation)
}

func (k *kubelet) release() error {
	return k.policy.RemoveContainer(k.log, k.memory, string(k.pod.UID), k.pod.Spec.Containers[0].Name)
}

func (k *kubelet) holds() cpuset.Set {
	cpus, _ := k.memory.GetCPUSet(string(k.pod.UID), k.pod.Spec.Containers[0].Name)
	return cpuset.Of(cpus.List()...)
}

func (k *kubelet) free() cpuset.Set { return cpuset.Of(k.memory.GetDefaultCPUSet().List()...) }

func (k *kubelet) state() any {
	return []any{k.memory.GetDefaultCPUSet(), k.memory.GetCPUAssignments(), k.memory.GetCPUBaselines(), k.memory.GetPodCPUAssignments()}
}
