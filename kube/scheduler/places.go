package scheduler

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/candor-project/candor/kube/profile"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// places are where it is said what containers are whose pods do not say it themselves: the profiles of
// their namespace, and the namespace's labels.
type places struct {
	log        klog.Logger
	namespaces corelisters.NamespaceLister

	mu       sync.RWMutex
	profiles map[string]map[string]known // by namespace and name
}

// A known profile is one as it was in a version of its object.
type known struct {
	profile.Profile
	version uint64
}

// take reads a profile; one that cannot be meant counts as none, and the log says so.
func (p *places) take(obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	var object v1alpha1.CPUProfile
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object)
	var read profile.Profile
	if err == nil {
		read, err = profile.Read(&object)
	}
	version := versionOf(u.GetResourceVersion())
	p.mu.Lock()
	defer p.mu.Unlock()
	if version < p.profiles[u.GetNamespace()][u.GetName()].version {
		return
	}
	if err != nil {
		p.log.Error(err, "A profile is passed over", "namespace", u.GetNamespace(), "cpuprofile", u.GetName())
		delete(p.profiles[u.GetNamespace()], u.GetName())
		return
	}
	if p.profiles == nil {
		p.profiles = map[string]map[string]known{}
	}
	if p.profiles[object.Namespace] == nil {
		p.profiles[object.Namespace] = map[string]known{}
	}
	p.profiles[object.Namespace][object.Name] = known{read, version}
}

// drop is told that a profile is gone.
func (p *places) drop(obj any) {
	if u, ok := last(obj).(*unstructured.Unstructured); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.profiles[u.GetNamespace()], u.GetName())
	}
}

// of returns what is said for the pods of a namespace. The labels of a namespace that cannot be meant
// say nothing, and the log says so.
func (p *places) of(pod *v1.Pod) (profiles []profile.Profile, labels profile.Values) {
	p.mu.RLock()
	for _, one := range p.profiles[pod.Namespace] {
		profiles = append(profiles, one.Profile)
	}
	p.mu.RUnlock()
	namespace, err := p.namespaces.Get(pod.Namespace)
	if err != nil { // gone with its pods, soon
		return profiles, nil
	}
	if labels, err = profile.Namespace(namespace.Labels); err != nil {
		p.log.Error(err, "The labels of a namespace are passed over", "namespace", pod.Namespace)
	}
	return profiles, labels
}
