package oci

import (
	"slices"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/view"
)

// An edit lists the changes of a configuration.
type edit struct {
	grant     *host.Grant // nil: only add the hooks
	groupPath string
	viewDir   string
	mems      string              // memory nodes; "": any
	env       bool                // set environment variables with the CPU count and the memory
	memory    *host.MemoryRequest // nil: no limit
	hooks     hooks

	withoutLive bool // do not mount the live files of the view
}

// hooks are two commands that the real runtime calls. It calls started when the cgroup exists, before the program runs. It
// calls stopped when the container is deleted.
type hooks struct{ started, stopped hook }

// A hook is a command that the real runtime calls (runtime-spec, "POSIX-platform Hooks").
type hook struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
}

// A mount is an entry of mounts in the configuration.
type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

// isBind reports whether a mount is a bind mount.
func (m *mount) isBind() bool {
	return m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

// apply applies the edit. It keeps all fields that it does not know.
func (c *config) apply(e edit) error {
	if err := c.addHooks(e.hooks); err != nil || e.grant == nil {
		return err
	}
	cpu, err := c.resources.inner("cpu")
	if err == nil {
		err = dropUnified(c.resources)
	}
	if err != nil {
		return err
	}
	setCPU(cpu, e.grant, e.mems, false)
	c.resources.set("cpu", cpu)
	c.linux.set("resources", c.resources)
	c.linux.set("cgroupsPath", e.groupPath)
	c.all.set("linux", c.linux)
	if e.grant.View.HasFiles() {
		parts := host.LiveParts(e.grant)
		if e.withoutLive {
			parts = view.LiveParts{}
		}
		if err := c.mountView(e.viewDir, parts); err != nil {
			return err
		}
	}
	if e.env {
		return c.setEnv(e.grant.VisibleCPUs(), e.memory)
	}
	return nil
}

// setCPU writes the settings of a grant into linux.resources.cpu, or into an update of it. For a grant without a quota, an
// update must contain -1, because the former quota would remain otherwise. Package host writes the burst: not every runtime
// knows it, and the kernel requires a lower burst before a lower quota, and a higher quota before a higher burst.
func setCPU(cpu object, g *host.Grant, mems string, update bool) {
	cpu.set("cpus", g.CPUs.String())
	if mems != "" {
		cpu.set("mems", mems)
	}
	cpu.set("period", g.Period.Microseconds())
	cpu.set("shares", sharesOf(g))
	delete(cpu, "quota")
	delete(cpu, "burst")
	if quota := quotaOf(g); quota > 0 {
		cpu.set("quota", quota)
	} else if update {
		cpu.set("quota", -1)
	}
}

// quotaOf returns a grant's CPU time per period in microseconds; 0: no quota.
func quotaOf(g *host.Grant) int64 {
	return g.QuotaTime().Microseconds()
}

// sharesOf returns the weight of a grant on the scale of OCI and cgroup v1: 1024 for a CPU. The runtime rounds this value;
// package host writes the exact weight when the cgroup exists.
func sharesOf(g *host.Grant) int64 {
	return min(max(int64(g.Weight)*1024/1000, 2), 262144)
}

// mountView mounts the view's files over the container's own.
func (c *config) mountView(dir string, parts view.LiveParts) error {
	var mounts []any
	for _, bind := range append(view.Binds(dir), view.LiveBinds(dir, parts)...) {
		if c.mounted(bind.Filesystem) {
			mounts = append(mounts, mount{bind.Target, "bind", bind.Source, []string{"bind", "ro", "nosuid", "nodev", "noexec", "private"}})
		}
	}
	return add(c.all, "mounts", mounts...)
}

// setEnv adds the variables with the CPU count and, with a memory limit, the memory.
func (c *config) setEnv(cpus int, memory *host.MemoryRequest) error {
	process, err := c.all.inner("process")
	if err != nil {
		return err
	}
	var added []any
	environ := view.Env(c.environ, cpus)
	if memory != nil {
		environ = view.MemoryEnv(environ, memory.Memory)
	}
	for _, entry := range environ[len(c.environ):] {
		added = append(added, entry)
	}
	if err := add(process, "env", added...); err != nil {
		return err
	}
	c.all.set("process", process)
	return nil
}

// addHooks adds the hooks.
func (c *config) addHooks(h hooks) error {
	all, err := c.all.inner("hooks")
	if err != nil {
		return err
	}
	if err := add(all, "createRuntime", h.started); err != nil {
		return err
	}
	if err := add(all, "poststop", h.stopped); err != nil {
		return err
	}
	c.all.set("hooks", all)
	return nil
}
