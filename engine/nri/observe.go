package nri

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

// Observe makes the engine one that looks on: it plans on a host that plans only, the log says what each
// container would have, and the runtime is answered as if nobody had asked. It is called before Run.
func (e *Engine) Observe() {
	e.observes, e.words = true, observing
}

// words are what the log calls a decision.
type words struct{ planned, refused, resized, resizeRefused string }

var (
	acting    = words{"planned", "refused", "resized", "resize refused"}
	observing = words{"would plan", "would refuse", "would resize", "would refuse to resize"}
)

// An observer is told all that a plugin is told, and changes nothing: no container, and no answer.
type observer struct{ *link }

// CreateContainer leaves the container as it is; what would be is in the log by now.
func (o *observer) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	_, _, _ = o.link.CreateContainer(ctx, pod, c)
	return nil, nil, nil
}

// StartContainer passes on only what is planned or preserved: a container that would have been refused starts all the same.
func (o *observer) StartContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	p := podOf(pod)
	g, err := o.grant(grantName(p, c.GetName()))
	_, _, preserved, _ := o.asks(p, containerOf(c))
	if err == nil && (g != nil || preserved) {
		err = o.link.StartContainer(ctx, pod, c)
	}
	o.unseen(c, err)
	return nil
}

func (o *observer) UpdateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container, wanted *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	_, _ = o.link.UpdateContainer(ctx, pod, c, wanted)
	return nil, nil
}

// PostUpdateContainer has nothing to set right.
func (o *observer) PostUpdateContainer(context.Context, *api.PodSandbox, *api.Container) error {
	return nil
}

func (o *observer) StopContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	_, err := o.link.StopContainer(ctx, pod, c)
	o.unseen(c, err)
	return nil, nil
}

func (o *observer) RemoveContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	o.unseen(c, o.link.RemoveContainer(ctx, pod, c))
	return nil
}

// unseen says that an event did not reach the plan.
func (o *observer) unseen(c *api.Container, err error) {
	if err != nil {
		o.log.Warn("not observed", "container", c.GetName(), "error", err)
	}
}
