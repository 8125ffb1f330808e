package scheduler

import (
	"maps"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/candor-project/candor/kube/profile"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// places are the sources of settings outside of pods: the profiles of their namespace, and the namespace's labels.
type places struct {
	log        klog.Logger
	namespaces corelisters.NamespaceLister

	mu       sync.RWMutex
	profiles map[string]map[string]known // by namespace and name
}

// A known profile is a profile in a version of its object.
type known struct {
	profile.Profile
	isNone  bool // deleted, or invalid
	isGone  bool
	isOld   bool // deleted at the last sweep
	version uint64
}

// take reads a profile; an invalid profile counts as none and is logged.
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
	if err != nil {
		p.log.Error(err, "A profile is passed over", "namespace", u.GetNamespace(), "cpuprofile", u.GetName())
	}
	p.set(u, known{Profile: read, isNone: err != nil})
}

// drop handles the deletion of a profile.
func (p *places) drop(obj any) {
	if u, ok := last(obj).(*unstructured.Unstructured); ok {
		p.set(u, known{isNone: true, isGone: true})
	}
}

// set stores a version of a profile, unless a newer version is known: events arrive by two informers, and can repeat. A deletion is newer
// than the same version of the profile.
func (p *places) set(u *unstructured.Unstructured, next known) {
	next.version = versionOf(u.GetResourceVersion())
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.profiles[u.GetNamespace()][u.GetName()]
	if next.version < was.version || next.version == was.version && was.isNone {
		return
	}
	if p.profiles == nil {
		p.profiles = map[string]map[string]known{}
	}
	if p.profiles[u.GetNamespace()] == nil {
		p.profiles[u.GetNamespace()] = map[string]known{}
	}
	p.profiles[u.GetNamespace()][u.GetName()] = next
}

// versions returns the version of each existing profile, by namespace and name as in a store.
func (p *places) versions() map[string]uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	versions := map[string]uint64{}
	for namespace, all := range p.profiles {
		for name, one := range all {
			if !one.isGone {
				versions[namespace+"/"+name] = one.version
			}
		}
	}
	return versions
}

// forget forgets a profile and its version.
func (p *places) forget(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.profiles[namespace], name)
}

// sweep forgets the profiles that were deleted before the last sweep: until then they protect against late events.
func (p *places) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for namespace, all := range p.profiles {
		maps.DeleteFunc(all, func(_ string, one known) bool { return one.isOld })
		for name, one := range all {
			if one.isGone {
				one.isOld = true
				all[name] = one
			}
		}
		if len(all) == 0 {
			delete(p.profiles, namespace)
		}
	}
}

// of returns the profiles and label settings for the pods of a namespace. Invalid labels of a namespace have no effect and are logged.
func (p *places) of(pod *v1.Pod) (profiles []profile.Profile, labels profile.Values) {
	p.mu.RLock()
	for _, one := range p.profiles[pod.Namespace] {
		if !one.isNone {
			profiles = append(profiles, one.Profile)
		}
	}
	p.mu.RUnlock()
	namespace, err := p.namespaces.Get(pod.Namespace)
	if err != nil { // deleted, soon with its pods
		return profiles, nil
	}
	if labels, err = profile.Namespace(namespace.Labels); err != nil {
		p.log.Error(err, "The labels of a namespace are passed over", "namespace", pod.Namespace)
	}
	return profiles, labels
}
