package nri

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/candor-project/candor/kube"
)

// TestContainerInCandorsGroup: a container whose cgroup would be in Candor's own parent cgroup is refused in one line,
// for any annotations of its pod. A container that already runs there stays unchanged.
func TestContainerInCandorsGroup(t *testing.T) {
	for _, preserve := range []string{"false", "true"} {
		l := newLab(t)
		pod := &api.PodSandbox{Id: "box1", Uid: "u1", Name: "web", Namespace: "default", Annotations: map[string]string{kube.PodKey("preserve"): preserve}}
		c := l.container("app", "app1", 50000)
		c.Linux.CgroupsPath = l.base + "-run/kubepods/pod1/app1"
		_, _, err := l.CreateContainer(ctx, pod, c)
		if err == nil || !strings.Contains(err.Error(), "container app: ") || !strings.Contains(err.Error(), "groups there are Candor's own") || strings.Contains(err.Error(), "\n") {
			t.Errorf("preserve %s: created: %v", preserve, err)
		}
		if g := l.grant(pod, c); g != nil {
			t.Errorf("preserve %s: it has a grant: %+v", preserve, g)
		}
		c.State, c.Pid = api.ContainerState_CONTAINER_RUNNING, 1
		if preserve == "false" {
			if err := l.StartContainer(ctx, pod, c); err == nil || !strings.Contains(err.Error(), "groups there are Candor's own") {
				t.Errorf("started: %v", err)
			}
		}
		other := l.container("other", "app2", 50000)
		l.run(other)
		if _, err := l.Synchronize(ctx, []*api.PodSandbox{pod}, []*api.Container{inBox(c), inBox(other)}); err != nil {
			t.Errorf("preserve %s: %v", preserve, err)
		}
		if log := l.log.String(); !strings.Contains(log, "cannot adopt a running container") || !strings.Contains(log, "Candor's own") {
			t.Errorf("preserve %s: the log does not name it: %s", preserve, log)
		}
		if g := l.grant(pod, c); g != nil {
			t.Errorf("preserve %s: adopted: %+v", preserve, g)
		}
		if preserve == "false" && l.grant(pod, other) == nil {
			t.Error("the container beside it is not adopted")
		}
	}
}

// inBox puts a container into the sandbox of the tests.
func inBox(c *api.Container) *api.Container {
	c.PodSandboxId = "box1"
	return c
}
