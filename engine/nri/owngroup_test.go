package nri

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/candor-project/candor/kube"
)

// TestContainerInCandorsGroup: a container with a cgroup below Candor's parent group is refused with a single
// line, for any annotations of its pod. A running container there is not adopted.
func TestContainerInCandorsGroup(t *testing.T) {
	for _, preserve := range []string{"false", "true"} {
		l := newLab(t)
		pod := &api.PodSandbox{Id: "box1", Uid: "u1", Name: "web", Namespace: "default", Annotations: map[string]string{kube.PodKey("preserve"): preserve}}
		c := l.container("app", "app1", 50000)
		c.Linux.CgroupsPath = l.base + "-run/kubepods/pod1/app1"
		_, _, err := l.CreateContainer(ctx, pod, c)
		if err == nil || !strings.Contains(err.Error(), "candor: container default/web/app: ") || !strings.Contains(err.Error(), "groups there are Candor's own") || strings.Contains(err.Error(), "\n") {
			t.Errorf("preserve %s: CreateContainer: got %v, want a refusal", preserve, err)
		}
		if g := l.grant(pod, c); g != nil {
			t.Errorf("preserve %s: the refused container has a grant: %+v", preserve, g)
		}
		c.State, c.Pid = api.ContainerState_CONTAINER_RUNNING, 1
		if preserve == "false" {
			if err := l.StartContainer(ctx, pod, c); err == nil || !strings.Contains(err.Error(), "groups there are Candor's own") {
				t.Errorf("StartContainer: got %v, want a refusal", err)
			}
		}
		other := l.container("other", "app2", 50000)
		l.run(other)
		if _, err := l.Synchronize(ctx, []*api.PodSandbox{pod}, []*api.Container{inBox(c), inBox(other)}); err != nil {
			t.Errorf("preserve %s: %v", preserve, err)
		}
		if log := l.log.String(); !strings.Contains(log, "cannot adopt a running container") || !strings.Contains(log, "Candor's own") {
			t.Errorf("preserve %s: the log does not report the container: %s", preserve, log)
		}
		if g := l.grant(pod, c); g != nil {
			t.Errorf("preserve %s: the container was adopted: %+v", preserve, g)
		}
		if preserve == "false" && l.grant(pod, other) == nil {
			t.Error("the other container was not adopted")
		}
	}
}

// inBox sets the sandbox of c to box1 and returns c.
func inBox(c *api.Container) *api.Container {
	c.PodSandboxId = "box1"
	return c
}
