package nri

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// Observe makes the engine only plan, on a plan-only host, and log the grant of each container. The runtime gets answers
// without changes. Call it before Run.
func (e *Engine) Observe() {
	e.observes, e.words = true, observing
}

// logWords are the log messages of decisions.
type logWords struct{ planned, refused, resized, resizeRefused string }

var (
	acting    = logWords{"planned", "refused", "resized", "resize refused"}
	observing = logWords{"would plan", "would refuse", "would resize", "would refuse to resize"}
)

// An observer handles all events of a plugin and changes neither a container nor an answer.
type observer struct{ *link }

// CreateContainer plans and logs the grant, and leaves the container as it is.
func (o *observer) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	_, _, _ = o.link.CreateContainer(ctx, pod, c)
	return nil, nil, nil
}

// StartContainer handles planned and preserved containers only. Other containers are containers that Candor would refuse; under an observer
// they start too.
func (o *observer) StartContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	p := podOf(pod)
	g, err := o.grant(grantName(p, c.GetName()))
	_, _, preserved, _ := o.requestOf(p, containerOf(c))
	if err == nil && (g != nil || preserved) {
		err = o.link.StartContainer(ctx, pod, c)
	}
	o.logUnplanned(pod, c, err)
	return nil
}

func (o *observer) UpdateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container, wanted *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	_, _ = o.link.UpdateContainer(ctx, pod, c, wanted)
	return nil, nil
}

// PostUpdateContainer does nothing, because the observer's answers change no container.
func (o *observer) PostUpdateContainer(context.Context, *api.PodSandbox, *api.Container) error {
	return nil
}

func (o *observer) StopContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	_, err := o.link.StopContainer(ctx, pod, c)
	o.logUnplanned(pod, c, err)
	return nil, nil
}

func (o *observer) RemoveContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	o.logUnplanned(pod, c, o.link.RemoveContainer(ctx, pod, c))
	return nil
}

// logUnplanned logs an event that the engine could not handle.
func (o *observer) logUnplanned(pod *api.PodSandbox, c *api.Container, err error) {
	if err != nil {
		o.log.Warn("not observed", "container", fullName(podOf(pod), containerOf(c)), "id", grantName(podOf(pod), c.GetName()), "error", err)
	}
}
