package nri

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"github.com/candor-project/candor/view"
)

// askedKey is the annotation with the original request of a container. The plugin writes it because, for a running container, the
// runtime reports the plugin's values instead of the request.
const askedKey = "candor.dev/asked"

// A plugin converts the runtime's events to calls of an Engine.
type plugin struct {
	*Engine
	ready func() // called when the plugin is connected
}

// These methods select the events of the plugin, because the runtime sends only events for which the plugin has a method.
var (
	_ stub.SynchronizeInterface         = (*plugin)(nil)
	_ stub.CreateContainerInterface     = (*plugin)(nil)
	_ stub.StartContainerInterface      = (*plugin)(nil)
	_ stub.UpdateContainerInterface     = (*plugin)(nil)
	_ stub.StopContainerInterface       = (*plugin)(nil)
	_ stub.PostUpdateContainerInterface = (*plugin)(nil)
	_ stub.RemoveContainerInterface     = (*plugin)(nil)
	_ stub.StopPodInterface             = (*plugin)(nil)
	_ stub.RemovePodInterface           = (*plugin)(nil)
)

// Synchronize adopts the running containers. If it fails, the connection ends and the plugin connects again.
func (p *plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, ctrs []*api.Container) ([]*api.ContainerUpdate, error) {
	byID := make(map[string]*Pod, len(pods))
	all := make([]*Pod, len(pods))
	for i, pod := range pods {
		all[i] = podOf(pod)
		byID[pod.GetId()] = all[i]
	}
	var running []Running
	for _, c := range ctrs {
		isUp := c.GetState() == api.ContainerState_CONTAINER_RUNNING || c.GetState() == api.ContainerState_CONTAINER_PAUSED
		if pod := byID[c.GetPodSandboxId()]; pod != nil && isUp {
			running = append(running, Running{pod, existing(c)})
		}
	}
	if err := p.Engine.Sync(ctx, all, running); err != nil {
		p.log.Error("cannot synchronize with the runtime", "error", err)
		return nil, err
	}
	if !p.flapping.Load() {
		p.log.Info("synchronized", "pods", len(pods), "running", len(running))
	}
	p.metrics.Synchronized()
	p.ready()
	return nil, nil
}

func (p *plugin) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	ctr := containerOf(c)
	r, err := p.Engine.Create(ctx, podOf(pod), ctr)
	if err != nil {
		p.metrics.Refused(refusalReason(podOf(pod), ctr, err))
		p.log.Warn(p.words.refused, "container", fullName(podOf(pod), ctr), "id", grantName(podOf(pod), ctr.Name), "reason", err)
		p.recordRefusal(podOf(pod), ctr, err)
	}
	if err != nil || r.CPUs == "" {
		return nil, nil, err
	}
	a := &api.ContainerAdjustment{}
	r.write(a)
	a.AddAnnotation(askedKey, ctr.record())
	for _, entry := range r.Env {
		name, value, _ := strings.Cut(entry, "=")
		a.AddEnv(name, value)
	}
	for _, b := range r.Binds {
		a.AddMount(mountOf(b))
	}
	return a, nil, nil
}

func (p *plugin) StartContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.Engine.Start(ctx, podOf(pod), existing(c))
}

func (p *plugin) UpdateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container, wanted *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	ctr := &Container{Name: c.GetName(), Cgroup: c.GetLinux().GetCgroupsPath(), CPU: cpuOf(wanted.GetCpu())}
	r, err := p.Engine.Update(ctx, podOf(pod), ctr)
	if err != nil {
		p.metrics.ResizeRefused(refusalReason(podOf(pod), ctr, err))
		p.recordResizeRefusal(podOf(pod), ctr, err)
	}
	if err != nil || r.CPUs == "" {
		return nil, err
	}
	u := &api.ContainerUpdate{}
	u.SetContainerId(c.GetId())
	r.write(u)
	return []*api.ContainerUpdate{u}, nil
}

// PostUpdateContainer handles the event that the runtime has written the reply to an update into the cgroup. Another operation can have
// moved the container after the reply, so the written values can be outdated.
func (p *plugin) PostUpdateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.Engine.Updated(ctx, podOf(pod), existing(c))
}

func (p *plugin) StopContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	return nil, p.Engine.Stop(ctx, podOf(pod), existing(c))
}

// RemoveContainer handles the removal of a container. For a container that never starts, this is the only event after its creation.
func (p *plugin) RemoveContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.Engine.Stop(ctx, podOf(pod), existing(c))
}

func (p *plugin) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return p.Engine.EndSandbox(ctx, podOf(pod))
}

func (p *plugin) RemovePodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	return p.Engine.EndSandbox(ctx, podOf(pod))
}

// cpuSetter has the common methods of an adjustment and an update.
type cpuSetter interface {
	SetLinuxCPUSetCPUs(string)
	SetLinuxCPUSetMems(string)
	SetLinuxCPUQuota(int64)
	SetLinuxCPUPeriod(int64)
	SetLinuxCPUShares(uint64)
}

func (r *Reply) write(to cpuSetter) {
	to.SetLinuxCPUSetCPUs(r.CPUs)
	if r.Mems != "" {
		to.SetLinuxCPUSetMems(r.Mems)
	}
	to.SetLinuxCPUQuota(r.Quota)
	to.SetLinuxCPUPeriod(r.Period)
	to.SetLinuxCPUShares(uint64(r.Shares))
}

func mountOf(b view.Bind) *api.Mount {
	return &api.Mount{Source: b.Source, Destination: b.Target, Type: "bind", Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}}
}

func podOf(pod *api.PodSandbox) *Pod {
	linux := pod.GetLinux()
	return &Pod{
		UID: pod.GetUid(), Sandbox: pod.GetId(), Namespace: pod.GetNamespace(), Name: pod.GetName(), Annotations: pod.GetAnnotations(),
		Shares: int64(linux.GetPodResources().GetCpu().GetShares().GetValue()),
	}
}

func containerOf(c *api.Container) *Container {
	ctr := &Container{Name: c.GetName(), Env: c.GetEnv(), Cgroup: c.GetLinux().GetCgroupsPath(), PID: int(c.GetPid())}
	ctr.CPU = cpuOf(c.GetLinux().GetResources().GetCpu())
	ctr.CPUs = c.GetLinux().GetResources().GetCpu().GetCpus()
	return ctr
}

// existing converts an existing container. The request comes from the annotation that the plugin wrote at the container's creation. A
// container that is about to be created can have a forged annotation, so containerOf ignores the annotation.
func existing(c *api.Container) *Container {
	ctr := containerOf(c)
	ctr.Now = ctr.CPU
	ctr.Planned = ctr.setRecord(c.GetAnnotations()[askedKey])
	return ctr
}

func cpuOf(cpu *api.LinuxCPU) CPU {
	return CPU{cpu.GetQuota().GetValue(), int64(cpu.GetPeriod().GetValue()), int64(cpu.GetShares().GetValue())}
}

// record formats the request. setRecord parses it, and ignores an invalid text.
func (c *CPU) record() string { return fmt.Sprintf("%d/%d/%d", c.Quota, c.Period, c.Shares) }

func (c *CPU) setRecord(text string) (ok bool) {
	var asked CPU
	n, err := fmt.Sscanf(text, "%d/%d/%d", &asked.Quota, &asked.Period, &asked.Shares)
	if ok = n == 3 && err == nil; ok {
		*c = asked
	}
	return ok
}
