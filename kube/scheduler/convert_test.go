package scheduler

import (
	"encoding/json"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/kube/podcpu"
)

// drawList draws amounts of a few resources.
func drawList(t *rapid.T, name string) v1.ResourceList {
	list := v1.ResourceList{}
	for _, kind := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "example.com/gpu"} {
		if rapid.Bool().Draw(t, name+string(kind)) {
			list[kind] = *resource.NewMilliQuantity(1000*rapid.Int64Range(0, 9).Draw(t, name), resource.DecimalSI)
		}
	}
	return list
}

// drawPod draws a pod with random values in all fields that affect its requests.
func drawPod(t *rapid.T) *v1.Pod {
	pod := &v1.Pod{}
	draw := func(name string, statuses *[]v1.ContainerStatus) v1.Container {
		c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: drawList(t, name)}}
		if rapid.Bool().Draw(t, "status") {
			s := v1.ContainerStatus{Name: name}
			if rapid.Bool().Draw(t, "allocated") {
				s.AllocatedResources = drawList(t, "allocated")
			}
			if rapid.Bool().Draw(t, "actual") {
				s.Resources = &v1.ResourceRequirements{Requests: drawList(t, "actual")}
			}
			*statuses = append(*statuses, s)
		}
		return c
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "init") {
		c := draw(string(rune('i'+i)), &pod.Status.InitContainerStatuses)
		if rapid.Bool().Draw(t, "sidecar") {
			policy := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &policy
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, draw(string(rune('a'+i)), &pod.Status.ContainerStatuses))
	}
	if rapid.Bool().Draw(t, "overhead") {
		pod.Spec.Overhead = drawList(t, "overhead")
	}
	if rapid.Bool().Draw(t, "whole") {
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: drawList(t, "whole")}
	}
	if reason := rapid.SampledFrom([]string{"", "Infeasible", "Deferred"}).Draw(t, "resize"); reason != "" {
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: reason}}
	}
	return pod
}

// TestRequestsEqualKubernetes: the requests of a pod equal the requests that kube-scheduler computes, for a
// typed pod and for its JSON.
func TestRequestsEqualKubernetes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text, err := json.Marshal(drawPod(rt))
		if err != nil {
			rt.Fatal(err)
		}
		pod, sent := &v1.Pod{}, &podcpu.Pod{} // JSON does not distinguish an empty list from a missing list
		if err := errors.Join(json.Unmarshal(text, pod), json.Unmarshal(text, sent)); err != nil {
			rt.Fatal(err)
		}
		want := helpers.PodRequests(pod, helpers.PodResourcesOptions{UseStatusResources: true})
		for where, got := range map[string]podcpu.List{"typed": podOf(pod).Requests(), "JSON": sent.Requests()} {
			for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "example.com/gpu"} {
				is, is2 := got[string(name)], want[name]
				if is.Cmp(is2) != 0 {
					rt.Fatalf("%s: %s: %v, want %v of %s", where, name, &is, &is2, text)
				}
			}
		}
	})
}
