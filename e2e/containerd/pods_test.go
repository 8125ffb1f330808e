package containerd

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A pod is created as the kubelet creates a pod: first its group, then the sandbox.
type pod struct {
	*lab
	name   string
	id     string
	config *cri.PodSandboxConfig
	cpuset string       // that the client gives its containers, as a kubelet with a static policy does
	limit  hybrid.Milli // of its group; 0: none
	slice  string       // path of its group where systemd has made it; "": the client has
	image  string       // of its containers; "": busybox
	memory int64        // limit of its next containers in bytes; 0: none
}

// A container is a container of a pod.
type container struct {
	*pod
	name           string
	id             string
	limit, request hybrid.Milli // 0: none
	sensitive      bool
}

var podNumber atomic.Int64

// allPods is the parent group of the pods' groups, as in the kubelet.
func (l *lab) allPods() *cgroup.Tree {
	l.Helper()
	tree, err := cgroup.Open(cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs})
	if err != nil {
		l.Fatal(err)
	}
	return tree
}

// all returns the CPUs of a container for which Candor does not plan.
func (l *lab) all() cpuset.Set {
	l.Helper()
	all, _, err := l.allPods().Effective()
	if err != nil {
		l.Fatal(err)
	}
	return all
}

// newPod creates a pod. limit and request are the sums over its containers.
func (l *lab) newPod(limit, request hybrid.Milli, annotations map[string]string) (*pod, error) {
	name := fmt.Sprintf("pod%d", podNumber.Add(1))
	tree := l.allPods()
	all, _, err := tree.Effective()
	if err != nil {
		return nil, err
	}
	settings := cgroup.Settings{CPUs: all, Quota: time.Duration(limit) * 100 * time.Microsecond, Weight: int(request)}
	if err := tree.Group(name).Create(settings, 0); err != nil {
		return nil, err
	}
	p := &pod{lab: l, name: name, limit: limit}
	return p, p.begin(l.parent+"/"+name, strings.TrimPrefix(name, "pod"), request, annotations)
}

// begin runs the pod's sandbox in the pod's group.
func (p *pod) begin(group, uid string, request hybrid.Milli, annotations map[string]string) error {
	p.config = &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: p.name, Namespace: "default", Uid: uid},
		Annotations:  annotations,
		LogDirectory: p.path("logs"),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: group,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{
				Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER, Ipc: cri.NamespaceMode_POD}},
			Resources: resources(p.limit, request),
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := p.cri.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: p.config, RuntimeHandler: p.handler})
	p.id = r.GetPodSandboxId()
	return err
}

// resources returns the CRI resources that the kubelet computes from a limit and a request.
func resources(limit, request hybrid.Milli) *cri.LinuxContainerResources {
	return &cri.LinuxContainerResources{
		CpuPeriod: 100000, CpuQuota: int64(limit) * 100, CpuShares: max(int64(request)*1024/1000, 2),
	}
}

// run starts a container with a command; without a command, the container is idle. The class comes from the
// pod's annotations.
func (p *pod) run(name string, limit, request hybrid.Milli, sensitive bool, command ...string) (*container, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	asked := resources(limit, request)
	asked.CpusetCpus, asked.MemoryLimitInBytes = p.cpuset, p.memory
	r, err := p.cri.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: name, Attempt: uint32(podNumber.Add(1))},
			Image:    &cri.ImageSpec{Image: cmp.Or(p.image, busybox)},
			Command:  command,
			LogPath:  name + ".log",
			Labels:   map[string]string{"io.kubernetes.container.name": name, "io.kubernetes.pod.name": p.name, "io.kubernetes.pod.namespace": "default"},
			Linux: &cri.LinuxContainerConfig{Resources: asked, SecurityContext: &cri.LinuxContainerSecurityContext{
				NamespaceOptions: p.config.Linux.SecurityContext.NamespaceOptions}},
		}})
	if err != nil {
		return nil, err
	}
	if _, err := p.cri.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: r.ContainerId}); err != nil {
		return nil, err
	}
	return &container{p, name, r.ContainerId, limit, request, sensitive}, nil
}

// ended waits until a container ends by itself.
func (c *container) ended() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ; ; time.Sleep(5 * time.Millisecond) {
		r, err := c.cri.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.id})
		if err != nil || r.GetStatus().GetState() == cri.ContainerState_CONTAINER_EXITED {
			return err
		}
	}
}

// stop stops and removes a container, as the kubelet does before it restarts the container.
func (c *container) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := c.cri.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.id}); err != nil {
		return err
	}
	_, err := c.cri.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: c.id})
	return err
}

// resize resizes a container in place as the kubelet does: the pod's group first if it grows, and last if it shrinks.
func (c *container) resize(limit hybrid.Milli) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before, after := c.pod.limit, c.pod.limit
	if before != 0 {
		after += limit - c.limit
	}
	if after > before {
		if err := c.pod.setLimit(after); err != nil {
			return err
		}
	}
	request := limit
	if !c.sensitive {
		request = c.request * limit / c.limit
	}
	_, err := c.cri.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: c.id, Linux: resources(limit, request)})
	if err != nil {
		c.pod.setLimit(before)
		return err
	}
	c.limit, c.request = limit, request
	return c.pod.setLimit(after)
}

// resizeMemory changes the memory limit of a container in place, without a change of its CPUs.
func (c *container) resizeMemory(limit int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := c.cri.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: c.id, Linux: &cri.LinuxContainerResources{MemoryLimitInBytes: limit}})
	return err
}

// setLimit writes the quota of the pod's group.
func (p *pod) setLimit(limit hybrid.Milli) error {
	group := p.allPods().Group(p.name)
	has, err := group.Settings()
	if err != nil {
		return err
	}
	p.limit = limit
	has.Quota = time.Duration(limit) * 100 * time.Microsecond
	return group.Apply(has)
}

// exec runs a command in the container and returns its output.
func (c *container) exec(command ...string) string {
	c.Helper()
	output, err := c.try(command...)
	if err != nil {
		c.Errorf("%s in %s: %v", command, c.name, err)
	}
	return output
}

// try runs a command in the container as exec does, and returns the error.
func (c *container) try(command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := c.cri.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: c.id, Cmd: command, Timeout: 60})
	return strings.TrimSpace(string(r.GetStdout()) + string(r.GetStderr())), err
}

// group returns the group of the container, which the runtime creates.
func (c *container) group() *cgroup.Group {
	if c.slice != "" {
		return c.allPods().EngineGroup(c.name, filepath.Join(c.slice, c.unit()))
	}
	c.Helper()
	return c.allPods().EngineGroup(c.name, filepath.Join(c.parent, c.pod.name, c.prefix+c.id))
}

// has returns the kernel's settings of the container.
func (c *container) has() (cgroup.Settings, error) {
	return c.group().Settings()
}

// cpus returns the container's CPUs in the kernel.
func (c *container) cpus() cpuset.Set {
	c.Helper()
	s, err := c.has()
	if err != nil {
		c.Error(err)
	}
	return s.CPUs
}
