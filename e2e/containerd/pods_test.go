package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A pod is one as kubelet makes it: a group of its own, then the sandbox.
type pod struct {
	*lab
	name   string
	id     string
	config *cri.PodSandboxConfig
	cpuset string // that the client gives its containers, as a kubelet with a static policy does
}

// A container of a pod.
type container struct {
	*pod
	name      string
	id        string
	limit     hybrid.Milli
	sensitive bool
}

var podNumber atomic.Int64

// allPods is the tree of the pods' groups, as kubelet has it.
func (l *lab) allPods() *cgroup.Tree {
	l.Helper()
	tree, err := cgroup.Open(cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs})
	if err != nil {
		l.Fatal(err)
	}
	return tree
}

// all are the CPUs that a container has for which nobody plans.
func (l *lab) all() cpuset.Set {
	l.Helper()
	all, _, err := l.allPods().Effective()
	if err != nil {
		l.Fatal(err)
	}
	return all
}

// newPod makes a pod whose containers' limits and requests are the given ones in sum.
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
	p := &pod{lab: l, name: name, config: &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "default", Uid: strings.TrimPrefix(name, "pod")},
		Annotations:  annotations,
		LogDirectory: l.path("logs"),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: l.parent + "/" + name,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{
				Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER, Ipc: cri.NamespaceMode_POD}},
			Resources: resources(limit, request),
		},
	}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := l.cri.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return nil, err
	}
	p.id = r.PodSandboxId
	return p, nil
}

// resources are what kubelet makes of a limit and a request.
func resources(limit, request hybrid.Milli) *cri.LinuxContainerResources {
	return &cri.LinuxContainerResources{
		CpuPeriod: 100000, CpuQuota: int64(limit) * 100, CpuShares: max(int64(request)*1024/1000, 2),
	}
}

// run starts a container that does nothing. It knows nothing of classes: the pod's annotations do.
func (p *pod) run(name string, limit, request hybrid.Milli, sensitive bool) (*container, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	asked := resources(limit, request)
	asked.CpusetCpus = p.cpuset
	r, err := p.cri.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: name, Attempt: uint32(podNumber.Add(1))},
			Image:    &cri.ImageSpec{Image: busybox},
			LogPath:  name + ".log",
			Labels:   map[string]string{"io.kubernetes.container.name": name},
			Linux:    &cri.LinuxContainerConfig{Resources: asked},
		}})
	if err != nil {
		return nil, err
	}
	if _, err := p.cri.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: r.ContainerId}); err != nil {
		return nil, err
	}
	return &container{p, name, r.ContainerId, limit, sensitive}, nil
}

// stop stops and removes a container, as kubelet does before it starts it anew.
func (c *container) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := c.cri.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.id}); err != nil {
		return err
	}
	_, err := c.cri.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: c.id})
	return err
}

// resize is kubelet's in-place resize of a container that is alone in its pod: the pod's group
// first if it grows, last if it shrinks.
func (c *container) resize(limit hybrid.Milli) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	group := c.allPods().Group(c.pod.name)
	has, err := group.Settings()
	if err != nil {
		return err
	}
	before := has
	has.Quota = time.Duration(limit) * 100 * time.Microsecond
	if limit > c.limit {
		if err := group.Apply(has); err != nil {
			return err
		}
	}
	_, err = c.cri.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: c.id, Linux: resources(limit, limit)})
	switch {
	case err != nil && limit > c.limit:
		group.Apply(before)
	case err == nil && limit < c.limit:
		err = group.Apply(has)
	}
	return err
}

// exec runs a command in the container and returns what it says.
func (c *container) exec(command ...string) string {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := c.cri.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: c.id, Cmd: command, Timeout: 60})
	if err != nil {
		c.Errorf("%s in %s: %v", command, c.name, err)
		return ""
	}
	return strings.TrimSpace(string(r.Stdout) + string(r.Stderr))
}

// has is what the kernel has for the container.
func (c *container) has() (cgroup.Settings, error) {
	return c.allPods().Foreign(c.name, filepath.Join(c.parent, c.pod.name, c.id)).Settings()
}

// cpus are the container's CPUs by the kernel.
func (c *container) cpus() cpuset.Set {
	c.Helper()
	s, err := c.has()
	if err != nil {
		c.Error(err)
	}
	return s.CPUs
}

// remove ends the pod as kubelet does, its group too.
func (p *pod) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := p.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return err
	}
	if _, err := p.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return err
	}
	return removeGroups(p.parent + "/" + p.name)
}

// removeGroups removes a group and those below it from every hierarchy: the runtime makes
// groups in more of them than Candor knows.
func removeGroups(path string) error {
	tops, err := filepath.Glob("/sys/fs/cgroup/*" + path)
	if unified := "/sys/fs/cgroup" + path; err == nil {
		if _, missing := os.Stat(unified); missing == nil {
			tops = append(tops, unified)
		}
	}
	for _, top := range tops {
		var dirs []string
		filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, dir)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("rmdir %s: %w", dir, err)
			}
		}
	}
	return err
}

// clear ends all pods, the daemons and the groups.
func (l *lab) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := l.cri.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		l.Errorf("%v; containerd said:\n%s", err, l.engine.said())
	}
	for _, p := range list.GetItems() {
		l.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.Id})
		l.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.Id})
	}
	if l.plugin != nil {
		l.plugin.kill()
		if l.Failed() {
			l.Logf("candor nri said:\n%s", l.plugin.said())
		}
	}
	l.conn.Close()
	l.engine.kill()
	tree := l.allPods()
	names, _ := tree.Groups()
	for _, name := range names {
		if err := tree.Group(name).End(); err != nil {
			l.Error(err)
		}
	}
	for _, path := range []string{l.parent, l.parent + "-run"} {
		if err := removeGroups(path); err != nil {
			l.Error(err)
		}
	}
}
