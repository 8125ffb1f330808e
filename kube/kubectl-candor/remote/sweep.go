package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// A sweep runs candor in a pod on each of several nodes.
type sweep struct {
	*jobRun
	run     string         // value of runLabel
	nodes   []string       // that have no agent
	created time.Time      // time at which all pods were created
	wait    sync.WaitGroup // for the reads of logs

	// Only the goroutine of runPods uses these.
	answered int             // number of first nodes with an answer
	reading  map[string]bool // nodes whose log is read
}

// Times of a sweep.
const (
	createTimeout = 10 * time.Second // to create a pod
	deleteTimeout = 10 * time.Second // to delete all pods
	checkInterval = 500 * time.Millisecond
)

// runPods runs the job in a pod on each of the nodes, and deletes the pods. An error is about all nodes. If ctx ends, runPods
// returns nil.
func (r *jobRun) runPods(ctx context.Context, nodes []string) error {
	s := &sweep{jobRun: r, run: strings.ToLower(rand.Text()[:10]), nodes: nodes, reading: map[string]bool{}}
	defer s.deleteAll(ctx)
	defer s.wait.Wait()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pods := s.watch(inner, cancel)
	creating := make(chan error, 1)
	go func() { creating <- s.createAll(inner) }()
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	known := map[string]*corev1.Pod{} // by node
	for isCreating := true; isCreating || s.missing(); {
		select {
		case p := <-pods:
			known[p.Spec.NodeName] = p
			s.update(inner, p)
		case <-check.C:
			if !isCreating {
				s.giveUp(known)
			}
		case err := <-creating:
			if err != nil {
				return err
			}
			isCreating, s.created = false, time.Now()
		case <-inner.Done():
			if isCreating {
				<-creating // deleteAll would not find a pod that is created later
			}
			if ctx.Err() != nil {
				return nil
			}
			return context.Cause(inner)
		}
	}
	return nil
}

// missing reports whether a node has no answer yet.
func (s *sweep) missing() bool {
	for s.answered < len(s.nodes) && s.hasAnswer(s.nodes[s.answered]) {
		s.answered++
	}
	return s.answered < len(s.nodes)
}

// createAll creates the pods, atOnce at the same time. It ends with the first error that all pods would have, or when ctx ends.
func (s *sweep) createAll(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan string)
	var wait sync.WaitGroup
	for range min(atOnce, len(s.nodes)) {
		wait.Go(func() {
			for node := range next {
				if err := s.create(inner, node); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, node := range s.nodes {
		select {
		case next <- node:
		case <-inner.Done():
		}
	}
	close(next)
	wait.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(inner)
}

// ErrPodSecurity is the error of a namespace whose PodSecurity level forbids the pods. It does not wrap the API server's error,
// which another role of the user would not avoid.
var ErrPodSecurity = errors.New("the namespace does not permit the pod")

// create creates the pod of a node. A call that has started is not interrupted, so that deleteAll finds its pod.
func (s *sweep) create(ctx context.Context, node string) error {
	if ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	p := s.job.Pods
	_, err := s.cluster.client.CoreV1().Pods(p.Namespace).Create(ctx, p.pod(node, s.run, s.job.Args), metav1.CreateOptions{})
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "PodSecurity"):
		return fmt.Errorf("%w: %s: %v; use --namespace with a namespace of the PodSecurity level privileged", ErrPodSecurity, p.Namespace, err)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsUnauthorized(err), apierrors.IsInvalid(err):
		return err
	}
	s.answer(Answer{Node: node, Err: fmt.Errorf("cannot create the pod: %w", err)})
	return nil
}

// watch sends each state of the pods of the sweep. The informer repeats the list if a watch breaks off. If the API server forbids
// the list or the watch, watch calls fail.
func (s *sweep) watch(ctx context.Context, fail context.CancelCauseFunc) <-chan *corev1.Pod {
	pods := make(chan *corev1.Pod)
	factory := informers.NewSharedInformerFactoryWithOptions(s.cluster.client, 0, informers.WithNamespace(s.job.Pods.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = runLabel + "=" + s.run }))
	informer := factory.Core().V1().Pods().Informer()
	send := func(object any) {
		if p, ok := object.(*corev1.Pod); ok {
			select {
			case pods <- p:
			case <-ctx.Done():
			}
		}
	}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only after the informer has ended
		AddFunc:    send,
		UpdateFunc: func(_, object any) { send(object) },
		DeleteFunc: func(object any) {
			if p, ok := object.(*corev1.Pod); ok && ctx.Err() == nil {
				s.answer(Answer{Node: p.Spec.NodeName, Err: errors.New("another program deleted the pod")})
			}
		},
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { // fails only after the start
		if apierrors.IsForbidden(err) {
			fail(err)
		}
	})
	factory.Start(ctx.Done())
	return pods
}

// update reads the log of a pod that has ended, and stores the reason why a pod cannot start.
func (s *sweep) update(ctx context.Context, p *corev1.Pod) {
	node := p.Spec.NodeName
	if s.reading[node] || s.hasAnswer(node) {
		return
	}
	state := &corev1.ContainerState{}
	if len(p.Status.ContainerStatuses) > 0 {
		state = &p.Status.ContainerStatuses[0].State
	}
	switch ended := state.Terminated; {
	case ended != nil && ended.ExitCode == 0 || p.Status.Phase == corev1.PodSucceeded:
		s.reading[node] = true
		s.wait.Go(func() { s.readLog(ctx, p, nil) })
	case ended != nil && p.Status.Reason == "":
		s.reading[node] = true
		s.wait.Go(func() { s.readLog(ctx, p, ended) })
	case p.Status.Phase == corev1.PodFailed:
		s.answer(Answer{Node: node, Err: fmt.Errorf("the pod failed: %.60s: %.200s", p.Status.Reason, p.Status.Message)})
	case state.Waiting != nil && isPermanent(state.Waiting.Reason):
		s.answer(Answer{Node: node, Err: startError(state.Waiting)})
	}
}

// isPermanent reports whether the kubelet waits with a reason that does not pass by itself.
func isPermanent(reason string) bool {
	switch reason {
	case "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return true
	}
	return false
}

// isPullError reports whether the kubelet could not pull the image. It tries again after 10 s, so that a busy registry answers a
// later try.
func isPullError(reason string) bool { return reason == "ErrImagePull" || reason == "ImagePullBackOff" }

// readLog stores the log of a pod as the answer of its node. failed is the state of a container that ended with another exit code
// than 0: the last line of its log is the error.
func (s *sweep) readLog(ctx context.Context, p *corev1.Pod, failed *corev1.ContainerStateTerminated) {
	at := Container{p.Namespace, p.Name, agentContainer}
	s.read(ctx, p.Spec.NodeName, at, func(ctx context.Context) ([]byte, error) {
		text, err := s.cluster.log(ctx, at, s.job.MaxOutput)
		if failed == nil || err != nil {
			return text, err
		}
		line := lastLine(string(text[max(0, len(text)-maxStderr):]))
		return text, &ExitError{int(failed.ExitCode), cmp.Or(line, failed.Reason)}
	})
}

// giveUp stores an error for the nodes that are late. known are the last states of the pods, by node.
func (s *sweep) giveUp(known map[string]*corev1.Pod) {
	waited := time.Since(s.created)
	for _, node := range s.nodes {
		p := known[node]
		switch {
		case s.reading[node] || s.hasAnswer(node):
		case waited > s.job.Pods.StartTimeout && (p == nil || p.Status.StartTime == nil):
			s.answer(Answer{Node: node, Err: fmt.Errorf("the kubelet did not start the pod within %v", s.job.Pods.StartTimeout)})
		case waited > s.job.Pods.StartTimeout && waiting(p) != nil && isPullError(waiting(p).Reason):
			s.answer(Answer{Node: node, Err: startError(waiting(p))})
		case waited > s.job.Pods.Timeout:
			s.answer(Answer{Node: node, Err: fmt.Errorf("the pod did not end within %v: %s", s.job.Pods.Timeout, waitingFor(p))})
		}
	}
}

// waiting returns the reason why the container of a pod waits, or nil if it does not wait.
func waiting(p *corev1.Pod) *corev1.ContainerStateWaiting {
	if len(p.Status.ContainerStatuses) == 0 {
		return nil
	}
	return p.Status.ContainerStatuses[0].State.Waiting
}

func startError(w *corev1.ContainerStateWaiting) error {
	return fmt.Errorf("the pod cannot start: %.60s: %.300s", w.Reason, w.Message)
}

// waitingFor describes the state of a pod that has not ended.
func waitingFor(p *corev1.Pod) string {
	w := waiting(p)
	switch {
	case w != nil:
		return fmt.Sprintf("%.60s %.200s", w.Reason, w.Message)
	case len(p.Status.ContainerStatuses) == 0:
		return "its container is not created"
	}
	return "candor runs"
}

// deleteAll deletes the pods of the sweep, also if ctx has ended.
func (s *sweep) deleteAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	// An error needs no message: the kubelets end the pods, and DeleteEnded of the next process deletes them.
	_ = s.cluster.client.CoreV1().Pods(s.job.Pods.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: runLabel + "=" + s.run})
}

// minAge is the age from which a pod belongs to no process any more: its deadline has passed.
const minAge = (podDeadline + 30) * time.Second

// DeleteEnded deletes the pods that killed processes have left in a namespace. These are pods that have ended, and pods after
// their deadline on nodes that do not answer. It returns the number of deleted pods.
func (c *Cluster) DeleteEnded(ctx context.Context, namespace string) (deleted int, err error) {
	pods := c.client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: managerLabel + "=" + manager})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		p := &list.Items[i]
		hasEnded := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.DeletionTimestamp != nil || !hasEnded && time.Since(p.CreationTimestamp.Time) < minAge {
			continue
		}
		err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return deleted, err
		}
		deleted++
	}
	return deleted, nil
}
