package containerd

import (
	"context"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/candor-project/candor/cpuset"
)

// A rival is another NRI plugin that sets the CPUs of containers.
type rival struct {
	cpus string
	stub stub.Stub
	met  chan struct{}
}

func (r *rival) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	close(r.met)
	return nil, nil
}

func (r *rival) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	a := &api.ContainerAdjustment{}
	a.SetLinuxCPUSetCPUs(r.cpus)
	return a, nil, nil
}

func (r *rival) UpdateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	return []*api.ContainerUpdate{r.update(c.GetId())}, nil
}

func (r *rival) update(id string) *api.ContainerUpdate {
	u := &api.ContainerUpdate{}
	u.SetContainerId(id)
	u.SetLinuxCPUSetCPUs(r.cpus)
	return u
}

// newRival connects a rival with an index, which orders the plugins; candor's index is 50.
func (l *lab) newRival(index, cpus string) *rival {
	l.Helper()
	r := &rival{cpus: cpus, met: make(chan struct{})}
	var err error
	r.stub, err = stub.New(r, stub.WithPluginName("rival"), stub.WithPluginIdx(index), stub.WithSocketPath(l.path("nri.sock")), stub.WithOnClose(func() {}))
	if err == nil {
		err = r.stub.Start(context.Background())
	}
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(r.stub.Stop)
	<-r.met
	return r
}

// TestConflictingPluginAtCreation: if two plugins set the CPUs of a new container, its creation fails with one line in
// the log, and running containers do not change.
func TestConflictingPluginAtCreation(t *testing.T) {
	for _, test := range []struct{ index, want string }{
		{"10", "/app: another program assigns it the CPUs 0; set"},
		{"90", `plugins "90-rival" and "50-candor" both tried to set CPUSetCPUs`},
	} {
		t.Run(test.index, func(t *testing.T) {
			l := newLab(t)
			c := newCensus(l)
			p := must[*pod](t)(l.newPod(300, 300, sensitivePod))
			c.begin(must[*container](t)(p.run("app", 300, 300, true)))
			c.begin(must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("app", 0, 0, false)))
			had := c.has()
			r := l.newRival(test.index, "0")
			refused := must[*pod](t)(l.newPod(200, 200, sensitivePod))
			if _, err := refused.run("app", 200, 200, true); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("it is refused for another reason: %v", err)
			}
			c.unmoved(had)
			r.stub.Stop()
			again := must[*container](t)(refused.run("app", 200, 200, true)) // as the kubelet tries
			again.sees()
			c.begin(again)
			c.check()
		})
	}
}

// TestForeignUpdateReverted: candor nri reverts the update that another plugin makes to a running container,
// and logs it.
func TestForeignUpdateReverted(t *testing.T) {
	l := newLab(t)
	c := newCensus(l)
	p := must[*pod](t)(l.newPod(1000, 1000, sensitivePod))
	web := must[*container](t)(p.run("app", 1000, 1000, true))
	log := must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("app", 0, 0, false))
	c.begin(web)
	c.begin(log)
	had, cpus := c.has(), web.cpus()
	rest := l.all().Minus(cpus)
	if rest.IsEmpty() {
		t.Skip("needs 2 CPUs")
	}
	r := l.newRival("90", cpuset.Of(rest.First()).String())
	// By itself, at any time.
	failed, err := r.stub.UpdateContainers([]*api.ContainerUpdate{r.update(web.id)})
	if err != nil || len(failed) != 0 {
		t.Fatalf("the rival's update: %v %v", failed, err)
	}
	message := "reset CPUs that differ from the grant"
	l.wait("the repair", l.plugin, func() bool { return strings.Contains(l.plugin.output(), message) && web.cpus() == cpus })
	c.unmoved(had)
	// In answer to the kubelet, after candor.
	if err := web.resize(500); err == nil || !strings.Contains(err.Error(), "both tried to set") {
		t.Errorf("a resize with two answers: %v", err)
	}
	r.stub.Stop()
	if err := web.resize(500); err != nil { // as the kubelet tries again
		t.Fatal(err)
	}
	c.check()
	web.sees()
}
