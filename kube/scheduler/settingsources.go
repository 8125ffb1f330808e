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

// settingSources holds the sources of settings outside of pods: the profiles of each namespace, and the namespaces' labels.
type settingSources struct {
	log        klog.Logger
	namespaces corelisters.NamespaceLister

	mu       sync.RWMutex
	profiles map[string]map[string]knownProfile // by namespace, then by name
}

// A knownProfile is the last known version of a profile.
type knownProfile struct {
	profile.Profile
	hasNoEffect bool // the profile is deleted or invalid
	isDeleted   bool
	wasSwept    bool // the profile was already deleted at the last sweep
	version     uint64
}

// store parses and stores a profile. An invalid profile is logged, and has no effect.
func (p *settingSources) store(obj any) {
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
	p.set(u, knownProfile{Profile: read, hasNoEffect: err != nil})
}

// remove handles the deletion of a profile.
func (p *settingSources) remove(obj any) {
	if u, ok := lastState(obj).(*unstructured.Unstructured); ok {
		p.set(u, knownProfile{hasNoEffect: true, isDeleted: true})
	}
}

// set stores a version of a profile, unless a newer version is known, because events arrive from two informers and can repeat. A deletion
// counts as newer than the same version of the profile.
func (p *settingSources) set(u *unstructured.Unstructured, next knownProfile) {
	next.version = versionOf(u.GetResourceVersion())
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.profiles[u.GetNamespace()][u.GetName()]
	if next.version < was.version || next.version == was.version && was.hasNoEffect {
		return
	}
	if p.profiles == nil {
		p.profiles = map[string]map[string]knownProfile{}
	}
	if p.profiles[u.GetNamespace()] == nil {
		p.profiles[u.GetNamespace()] = map[string]knownProfile{}
	}
	p.profiles[u.GetNamespace()][u.GetName()] = next
}

// versions maps the key of each existing profile, NAMESPACE/NAME as in an informer's store, to its version.
func (p *settingSources) versions() map[string]uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	versions := map[string]uint64{}
	for namespace, all := range p.profiles {
		for name, one := range all {
			if !one.isDeleted {
				versions[namespace+"/"+name] = one.version
			}
		}
	}
	return versions
}

// forget removes a profile and its version.
func (p *settingSources) forget(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.profiles[namespace], name)
}

// sweep removes the profiles that were deleted before the last sweep. sweep retains a deleted profile until then, so that late
// events cannot restore the profile.
func (p *settingSources) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for namespace, all := range p.profiles {
		maps.DeleteFunc(all, func(_ string, one knownProfile) bool { return one.wasSwept })
		for name, one := range all {
			if one.isDeleted {
				one.wasSwept = true
				all[name] = one
			}
		}
		if len(all) == 0 {
			delete(p.profiles, namespace)
		}
	}
}

// sourcesFor returns the profiles and the label settings of a pod's namespace. Invalid labels of a namespace are logged, and have no
// effect.
func (p *settingSources) sourcesFor(pod *v1.Pod) (profiles []profile.Profile, labels profile.Values) {
	p.mu.RLock()
	for _, one := range p.profiles[pod.Namespace] {
		if !one.hasNoEffect {
			profiles = append(profiles, one.Profile)
		}
	}
	p.mu.RUnlock()
	namespace, err := p.namespaces.Get(pod.Namespace)
	if err != nil { // the namespace was deleted, and its pods will be deleted soon
		return profiles, nil
	}
	if labels, err = profile.Namespace(namespace.Labels); err != nil {
		p.log.Error(err, "The labels of a namespace are passed over", "namespace", pod.Namespace)
	}
	return profiles, labels
}
