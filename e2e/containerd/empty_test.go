package containerd

import (
	"context"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

// emptyPluginSocket is an environment variable that makes this test binary a plugin that gets the same events
// as candor nri and does nothing.
const emptyPluginSocket = "CANDOR_EMPTY_PLUGIN"

// startEmptyPlugin starts the empty plugin for an engine.
func (l *lab) startEmptyPlugin() {
	l.Helper()
	l.Setenv(emptyPluginSocket, l.path("nri.sock"))
	l.startPluginBy(must[string](l)(os.Executable()))
	l.Setenv(emptyPluginSocket, "")
}

// runEmptyPlugin runs the empty plugin until the engine ends.
func runEmptyPlugin(socket string) error {
	s, err := stub.New(empty{}, stub.WithPluginName("empty"), stub.WithPluginIdx("90"), stub.WithSocketPath(socket))
	if err != nil {
		return err
	}
	return s.Run(context.Background())
}

type empty struct{}

func (empty) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	fmt.Println("msg=synchronized")
	return nil, nil
}

func (empty) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return nil, nil, nil
}

func (empty) StartContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }

func (empty) UpdateContainer(context.Context, *api.PodSandbox, *api.Container, *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

func (empty) StopContainer(context.Context, *api.PodSandbox, *api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

func (empty) PostUpdateContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }

func (empty) RemoveContainer(context.Context, *api.PodSandbox, *api.Container) error { return nil }

func (empty) StopPodSandbox(context.Context, *api.PodSandbox) error { return nil }

func (empty) RemovePodSandbox(context.Context, *api.PodSandbox) error { return nil }
