package scheduler

import (
	"context"
	"errors"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// listen subscribes the plugins to the nodes' reports, to profiles, and to bound pods.
func (s *shared) listen(ctx context.Context, own informers.SharedInformerFactory, objects dynamicinformer.DynamicSharedInformerFactory) error {
	reports := objects.ForResource(v1alpha1.GroupVersion.WithResource(v1alpha1.NodeCPUs)).Informer()
	if err := reports.SetTransform(asReport); err != nil {
		return err
	}
	profiles := objects.ForResource(v1alpha1.GroupVersion.WithResource(v1alpha1.CPUProfiles)).Informer()
	if err := profiles.SetTransform(withoutManagedFields); err != nil {
		return err
	}
	core := own.Core().V1()
	s.places.namespaces, s.pods, s.nodes = core.Namespaces().Lister(), core.Pods().Lister(), core.Nodes().Lister()
	s.reports, s.profiles = reports.GetStore(), profiles.GetStore()
	s.synced = append(s.synced, core.Namespaces().Informer().HasSynced)
	for _, l := range []struct {
		to        cache.SharedIndexInformer
		set, gone func(any)
	}{
		{reports, s.hear, s.miss},
		{profiles, s.places.take, s.places.drop},
		{core.Pods().Informer(), s.see, s.lose},
	} {
		handler := cache.ResourceEventHandlerFuncs{AddFunc: l.set, UpdateFunc: func(_, obj any) { l.set(obj) }, DeleteFunc: l.gone}
		if err := s.handle(l.to, handler); err != nil {
			return err
		}
	}
	if err := s.handle(core.Nodes().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: s.meet, UpdateFunc: s.meetAgain}); err != nil {
		return err
	}
	objects.Start(ctx.Done())
	return nil
}

// handle adds a handler to an informer. The plugin makes no decision until the handler has received all objects.
func (s *shared) handle(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return err
	}
	s.synced = append(s.synced, registration.HasSynced)
	return nil
}

// last returns the last known state of a deleted object.
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

// startTakes bounds the time for which pods wait for the initial objects.
const startTakes = 10 * time.Second

// awaitSync waits for isSynced, at most for a time from the start: no pod can be placed before, and each attempt would wait for its next
// retry. Later it never blocks, since that would delay the pods of other profiles as well.
func (s *shared) awaitSync(ctx context.Context) bool {
	if s.isSynced() {
		return true
	}
	ctx, cancel := context.WithDeadline(ctx, s.began.Add(startTakes))
	defer cancel()
	return wait.PollUntilContextCancel(ctx, syncEvery, false, func(context.Context) (bool, error) { return s.isSynced(), nil }) == nil
}

const syncEvery = 20 * time.Millisecond

// A report is a NodeCPU as the informer's store has it: the node that it describes, or why it describes none. The text of the report, up
// to 30 KB for a node, is not stored.
type report struct {
	metav1.ObjectMeta           // name and version only
	owner             types.UID // of the Node that the NodeCPU belongs to; empty: it names none
	node              *hybrid.Node
	err               error
}

// asReport reads a NodeCPU.
func asReport(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	r := &report{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), ResourceVersion: u.GetResourceVersion()}}
	var object v1alpha1.NodeCPU
	if r.err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object); r.err == nil {
		r.owner = object.NodeUID()
		r.node, r.err = nodecpu.Node(&object.Status)
	}
	return r, nil
}

// withoutManagedFields removes the part of an object that no plugin reads.
func withoutManagedFields(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return obj, nil
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
	switch {
	case s.isFormer(r):
		s.cluster.NoReport(r.Name, r.version(), cluster.Former)
	case r.err == nil:
		s.cluster.Report(r.Name, r.version(), r.node, s.now())
	case errors.Is(r.err, nodecpu.ErrNoReport):
		s.cluster.NoReport(r.Name, r.version(), cluster.NotYet)
	default:
		s.cluster.NoReport(r.Name, r.version(), cluster.Unusable)
		s.log.Error(r.err, "The report of a node cannot be used", "nodecpu", r.Name)
	}
}

// isFormer reports whether a report is of a former node: the Node of that name is another object by now, and may be another machine.
func (s *shared) isFormer(r *report) bool {
	node, err := s.nodes.Get(r.Name)
	return err == nil && r.owner != "" && r.owner != node.UID
}

// miss handles the deletion of a NodeCPU.
func (s *shared) miss(obj any) {
	if r, ok := last(obj).(*report); ok {
		s.cluster.NoReport(r.Name, r.version(), cluster.Gone)
	}
}

// meet takes the report of a new node: until now it can have counted as the report of a former node.
func (s *shared) meet(obj any) {
	if node, ok := obj.(*v1.Node); ok {
		if _, exists, err := s.reports.GetByKey(node.Name); err == nil && exists {
			s.rehear(node.Name)
		}
	}
}

// meetAgain is meet for a Node that may have been deleted and made again between two events.
func (s *shared) meetAgain(before, after any) {
	was, ok := before.(*v1.Node)
	is, ok2 := after.(*v1.Node)
	if ok && ok2 && was.UID != is.UID {
		s.meet(is)
	}
}

// see records a pod that is bound to a node. Mirror pods do not count: the node has the static pod under another UID, and has started it.
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

// lose handles the deletion of a pod.
func (s *shared) lose(obj any) {
	if pod, ok := last(obj).(*v1.Pod); ok {
		s.freed.add(s.cluster.Forget(string(pod.UID)))
		s.wide.remove(pod.UID)
	}
}
