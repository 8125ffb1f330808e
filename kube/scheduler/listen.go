package scheduler

import (
	"context"
	"errors"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// listen has the plugins told of the nodes' reports, of profiles, and of the pods that are bound.
func (s *shared) listen(ctx context.Context, own informers.SharedInformerFactory, objects dynamicinformer.DynamicSharedInformerFactory) error {
	reports := objects.ForResource(v1alpha1.GroupVersion.WithResource(v1alpha1.NodeCPUs)).Informer()
	if err := reports.SetTransform(asReport); err != nil {
		return err
	}
	profiles := objects.ForResource(v1alpha1.GroupVersion.WithResource(v1alpha1.CPUProfiles)).Informer()
	core := own.Core().V1()
	s.places.namespaces, s.pods = core.Namespaces().Lister(), core.Pods().Lister()
	s.synced = append(s.synced, core.Namespaces().Informer().HasSynced)
	for _, l := range []struct {
		to        cache.SharedIndexInformer
		set, gone func(any)
	}{
		{reports, s.hear, s.miss},
		{profiles, s.places.take, s.places.drop},
		{core.Pods().Informer(), s.see, s.lose},
	} {
		told, err := l.to.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: l.set, UpdateFunc: func(_, obj any) { l.set(obj) }, DeleteFunc: l.gone,
		})
		if err != nil {
			return err
		}
		s.synced = append(s.synced, told.HasSynced)
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
func (s *shared) isSynced() bool {
	for _, synced := range s.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// startTakes is how long pods wait for what is read when the scheduler starts.
const startTakes = 10 * time.Second

// awaitSync is isSynced once that is so, or when it has taken too long since the start: no pod can be placed before, and each that was
// tried would have to wait for its next try. Later nobody is held, as the pods of other profiles would be, too.
func (s *shared) awaitSync(ctx context.Context) bool {
	if s.isSynced() {
		return true
	}
	ctx, cancel := context.WithDeadline(ctx, s.began.Add(startTakes))
	defer cancel()
	return wait.PollUntilContextCancel(ctx, syncEvery, false, func(context.Context) (bool, error) { return s.isSynced(), nil }) == nil
}

const syncEvery = 20 * time.Millisecond

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
func (s *shared) hear(obj any) {
	r, ok := obj.(*report)
	if !ok || r.version() <= s.cluster.Version(r.Name) {
		return
	}
	err := r.err
	var node *hybrid.Node
	if err == nil {
		node, err = nodecpu.Node(&r.Status)
	}
	switch {
	case err == nil:
		s.cluster.Report(r.Name, r.version(), node, s.now())
	case errors.Is(err, nodecpu.ErrNoReport):
		s.cluster.NoReport(r.Name, r.version(), false)
	default:
		s.cluster.NoReport(r.Name, r.version(), true)
		s.log.Error(err, "The report of a node cannot be used", "nodecpu", r.Name)
	}
}

// miss is told that a NodeCPU is gone.
func (s *shared) miss(obj any) {
	if r, ok := last(obj).(*report); ok {
		s.cluster.NoReport(r.Name, r.version(), false)
	}
}

// see takes note of a pod that is bound to a node. What stands for a static pod does not count: its node has that one
// under another UID, and began with it.
func (s *shared) see(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Annotations[v1.MirrorPodAnnotationKey] != "" {
		return
	}
	s.wide.remove(pod.UID)
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		s.cluster.Forget(string(pod.UID))
		return
	}
	if asks, err := boundAs(pod); err == nil { // else no node has room for it
		s.cluster.Bound(pod.Spec.NodeName, asks, s.now())
	}
}

// lose is told that a pod is gone.
func (s *shared) lose(obj any) {
	if pod, ok := last(obj).(*v1.Pod); ok {
		s.cluster.Forget(string(pod.UID))
		s.wide.remove(pod.UID)
	}
}
