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

// listen adds event handlers for reports, profiles, pods and nodes. own are kube-scheduler's informers; objects creates informers for
// custom resources.
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
	s.sources.namespaces, s.pods, s.nodes = core.Namespaces().Lister(), core.Pods().Lister(), core.Nodes().Lister()
	s.reports, s.profiles = reports.GetStore(), profiles.GetStore()
	s.synced = append(s.synced, core.Namespaces().Informer().HasSynced)
	for _, subscription := range []struct {
		to          cache.SharedIndexInformer
		set, remove func(any)
	}{
		{reports, s.storeReport, s.removeReport},
		{profiles, s.sources.store, s.sources.remove},
		{core.Pods().Informer(), s.storePod, s.removePod},
	} {
		handler := cache.ResourceEventHandlerFuncs{AddFunc: subscription.set, UpdateFunc: func(_, obj any) { subscription.set(obj) }, DeleteFunc: subscription.remove}
		if err := s.addHandler(subscription.to, handler); err != nil {
			return err
		}
	}
	if err := s.addHandler(core.Nodes().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: s.addNode, UpdateFunc: s.updateNode}); err != nil {
		return err
	}
	objects.Start(ctx.Done())
	return nil
}

// addHandler adds a handler to an informer. The plugin makes no decision until the handler has received all initial objects.
func (s *shared) addHandler(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return err
	}
	s.synced = append(s.synced, registration.HasSynced)
	return nil
}

// lastState returns the object of a deletion event. If the informer missed the deletion, this is the last known state.
func lastState(obj any) any {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}

// isSynced reports whether the handlers have received all objects that existed when the plugin started.
func (s *shared) isSynced() bool {
	for _, synced := range s.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// maxSyncWait bounds the time after the start for which pods wait for the initial objects.
const maxSyncWait = 10 * time.Second

// awaitSync waits until isSynced returns true, and reports whether it did. Without the wait, PreFilter would have to refuse the
// pod, and kube-scheduler would retry the pod only later. Once maxSyncWait has passed since the start, awaitSync no longer waits,
// because a wait also delays the pods of other profiles.
func (s *shared) awaitSync(ctx context.Context) bool {
	if s.isSynced() {
		return true
	}
	ctx, cancel := context.WithDeadline(ctx, s.startedAt.Add(maxSyncWait))
	defer cancel()
	return wait.PollUntilContextCancel(ctx, syncInterval, false, func(context.Context) (bool, error) { return s.isSynced(), nil }) == nil
}

const syncInterval = 20 * time.Millisecond

// A report is the parsed form of a NodeCPU: a node, or the error if the NodeCPU is invalid. The informer stores reports instead of the
// original objects, which have up to 30 KB for a node.
type report struct {
	metav1.ObjectMeta           // name and version only
	owner             types.UID // UID of the Node that owns the NodeCPU; "" if there is no owner
	node              *hybrid.Node
	err               error
}

// asReport parses a NodeCPU into a report. It returns other objects unchanged.
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

// withoutManagedFields removes the managed fields of an object, which the plugin does not read, to save memory.
func withoutManagedFields(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return obj, nil
}

func (r *report) version() uint64 { return versionOf(r.ResourceVersion) }

// versionOf returns an object's resource version as a number, which grows with each change, or 0 if the version is invalid.
func versionOf(resourceVersion string) uint64 {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// storeReport passes a report to the cluster, unless the cluster knows a report of the same or a newer version.
func (s *shared) storeReport(obj any) {
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

// isFormer reports whether a report is from a former node. This is so if the current Node with the same name has another UID, because this
// Node can be another machine.
func (s *shared) isFormer(r *report) bool {
	node, err := s.nodes.Get(r.Name)
	return err == nil && r.owner != "" && r.owner != node.UID
}

// removeReport handles the deletion of a NodeCPU.
func (s *shared) removeReport(obj any) {
	if r, ok := lastState(obj).(*report); ok {
		s.cluster.NoReport(r.Name, r.version(), cluster.Gone)
	}
}

// addNode stores the report of a new node. If the report arrived before the Node, storeReport may have taken it for the report of a former
// node with the same name.
func (s *shared) addNode(obj any) {
	if node, ok := obj.(*v1.Node); ok {
		if _, exists, err := s.reports.GetByKey(node.Name); err == nil && exists {
			s.reloadReport(node.Name)
		}
	}
}

// updateNode calls addNode if the Node was deleted and recreated between two events.
func (s *shared) updateNode(before, after any) {
	was, ok := before.(*v1.Node)
	is, ok2 := after.(*v1.Node)
	if ok && ok2 && was.UID != is.UID {
		s.addNode(is)
	}
}

// storePod records a pod that is bound to a node, or forgets the pod if it has ended. It ignores mirror pods, because the node reports
// the static pod under another UID.
func (s *shared) storePod(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Annotations[v1.MirrorPodAnnotationKey] != "" {
		return
	}
	s.fullScan.remove(pod.UID)
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		s.cluster.Forget(string(pod.UID))
		return
	}
	if demand, err := boundPod(pod); err == nil { // an invalid request fits on no node
		s.cluster.Bound(pod.Spec.NodeName, demand, s.now())
	}
}

// removePod handles the deletion of a pod.
func (s *shared) removePod(obj any) {
	if pod, ok := lastState(obj).(*v1.Pod); ok {
		s.freed.add(s.cluster.Forget(string(pod.UID)))
		s.fullScan.remove(pod.UID)
	}
}
