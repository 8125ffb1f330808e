package scheduler

import (
	"context"
	"errors"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// listen has the plugin told of the nodes' reports, of profiles, and of the pods that are bound.
func (p *Plugin) listen(ctx context.Context, objects dynamicinformer.DynamicSharedInformerFactory) error {
	reports := objects.ForResource(v1alpha1.GroupVersion.WithResource(v1alpha1.NodeCPUs)).Informer()
	if err := reports.SetTransform(asReport); err != nil {
		return err
	}
	profiles := objects.ForResource(v1alpha1.GroupVersion.WithResource(v1alpha1.CPUProfiles)).Informer()
	core := p.handle.SharedInformerFactory().Core().V1()
	p.places.namespaces = core.Namespaces().Lister()
	p.synced = append(p.synced, core.Namespaces().Informer().HasSynced)
	for _, l := range []struct {
		to        cache.SharedIndexInformer
		set, gone func(any)
	}{
		{reports, p.hear, p.miss},
		{profiles, p.places.take, p.places.drop},
		{core.Pods().Informer(), p.see, p.lose},
	} {
		told, err := l.to.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: l.set, UpdateFunc: func(_, obj any) { l.set(obj) }, DeleteFunc: l.gone,
		})
		if err != nil {
			return err
		}
		p.synced = append(p.synced, told.HasSynced)
	}
	objects.Start(ctx.Done())
	return nil
}

// last is the last that is known of an object that is gone.
func last(obj any) any {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}

// isSynced reports whether all is known that was there when the plugin began.
func (p *Plugin) isSynced() bool {
	for _, synced := range p.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// A report is a NodeCPU as it is kept, or why it cannot be read.
type report struct {
	*v1alpha1.NodeCPU
	err error
}

// asReport reads a NodeCPU.
func asReport(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	r := &report{NodeCPU: &v1alpha1.NodeCPU{}}
	r.err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r.NodeCPU)
	r.Name, r.ResourceVersion, r.ManagedFields = u.GetName(), u.GetResourceVersion(), nil
	return r, nil
}

func (r *report) version() uint64 { return versionOf(r.ResourceVersion) }

// versionOf is the number of an object's version; it grows.
func versionOf(resourceVersion string) uint64 {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// hear takes a node's report.
func (p *Plugin) hear(obj any) {
	r, ok := obj.(*report)
	if !ok || r.version() <= p.cluster.Version(r.Name) {
		return
	}
	err := r.err
	var node *hybrid.Node
	if err == nil {
		node, err = nodecpu.Node(&r.Status)
	}
	switch {
	case err == nil:
		p.cluster.Report(r.Name, r.version(), node, p.now())
	case errors.Is(err, nodecpu.ErrNoReport):
		p.cluster.NoReport(r.Name, r.version(), false)
	default:
		p.cluster.NoReport(r.Name, r.version(), true)
		p.log.Error(err, "The report of a node cannot be used", "nodecpu", r.Name)
	}
}

// miss is told that a NodeCPU is gone.
func (p *Plugin) miss(obj any) {
	if r, ok := last(obj).(*report); ok {
		p.cluster.NoReport(r.Name, r.version(), false)
	}
}

// see takes note of a pod that is bound to a node. What stands for a static pod does not count: its node has that one
// under another UID, and began with it.
func (p *Plugin) see(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Annotations[v1.MirrorPodAnnotationKey] != "" {
		return
	}
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		p.cluster.Forget(string(pod.UID))
		return
	}
	if asks, err := p.boundAs(pod); err == nil { // the node refuses what cannot be meant
		p.cluster.Bound(pod.Spec.NodeName, asks, p.now())
	}
}

// lose is told that a pod is gone.
func (p *Plugin) lose(obj any) {
	if pod, ok := last(obj).(*v1.Pod); ok {
		p.cluster.Forget(string(pod.UID))
	}
}
