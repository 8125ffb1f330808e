package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/spec"
)

// A Wrapper executes the commands of an OCI runtime in place of the real runtime.
type Wrapper struct {
	Host    host.Options // all fields set; paths are absolute, because hooks run in another directory
	Class   hybrid.Class // class of containers that request no class
	Runtime string       // path or name of the real runtime; "": runc or crun
	Self    []string     // command line of candor for hooks, with an absolute path first; empty if unknown
}

// exitRefused is runc's exit code for its own errors.
const exitRefused = 1

// Main executes the command of a runtime and returns its exit code; for most commands, the real runtime replaces this process.
// Refusals go to standard error and to the log file of the engine.
func (w *Wrapper) Main(args []string) int {
	c := Parse(args)
	code, err := w.do(&c)
	if err != nil {
		c.refuse(err)
		return exitRefused
	}
	return code
}

func (w *Wrapper) do(c *Call) (code int, err error) {
	real, err := findRuntime(w.Runtime)
	if err != nil {
		return 0, err
	}
	switch c.Command {
	case "create", "run":
		return w.create(c, real)
	case "update":
		return w.update(c, real)
	case "delete":
		c.warn(w.recordUsage(c)) // a failure does not prevent the deletion
		c.warn(w.returnHelpers(c))
		return 0, become(real, c.Args)
	case "restore":
		return 0, errors.New("restore: Candor does not support checkpoints; create the container again, or use another runtime")
	default:
		return 0, become(real, c.Args)
	}
}

// open opens the host of the wrapper. The host's messages go to the log file of the engine.
func (w *Wrapper) open(c *Call) (*host.Host, error) {
	w.Host.Log = c.logger()
	return host.Open(w.Host)
}

// create creates a container.
func (w *Wrapper) create(c *Call, real string) (code int, err error) {
	if err := c.checkID(); err != nil {
		return 0, fmt.Errorf("%s: %w", c.Command, err)
	}
	if len(w.Self) == 0 {
		return 0, errors.New("cannot read /proc/self/exe; mount /proc, because the runtime's hooks call candor by its path")
	}
	cfg, err := loadConfig(c.bundle(), c.config())
	if err != nil {
		return 0, errline.Named(c.Name(), err)
	}
	name := c.displayName(cfg)
	b, err := overrideFor(c.Name())
	if err != nil {
		return 0, errline.Named(name, err)
	}
	if b != nil {
		return b.create(w, c, real, cfg)
	}
	a, ours, err := w.requestOf(c, cfg)
	if err != nil {
		return 0, errline.Named(name, err)
	}
	if !ours {
		return 0, errline.Named(name, w.leave(c, real, cfg, a.cpus))
	}
	return w.place(c, real, cfg, a)
}

// place allocates the CPUs of a container and lets the real runtime create it.
func (w *Wrapper) place(c *Call, real string, cfg *config, a request) (code int, err error) {
	h, err := w.open(c)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	ctx := context.Background()
	c.warnWeight(a.ID, a.weight)
	own := bundle(h.BundleDir(a.ID))
	g, err := w.grant(ctx, h, a, cfg, own)
	if err != nil {
		return 0, errline.Named(c.displayName(cfg), err)
	}
	logSize := c.logSize()
	code, err = own.make(c, real)
	if err != nil || code != 0 {
		c.warn(errline.Join(own.remove(), h.ReleaseOwn(ctx, a.ID, true)))
		if err == nil && !a.withoutLive && c.blamesLiveView(g, logSize) {
			refused := fmt.Errorf("the runtime refuses files of the view %s; the container starts with the view %s", g.View, spec.ViewCPU)
			c.warn(errline.Named(c.displayName(cfg), refused))
			return w.placeWithoutLive(c, real, a)
		}
		return code, err
	}
	c.warn(c.placeHelper(ctx, h, g))
	return 0, nil
}

// placeWithoutLive places a container again, without the live files of its view, which the real runtime has refused. The grant is
// a new one, because the real runtime calls the hook for the end of a container that it cannot create.
func (w *Wrapper) placeWithoutLive(c *Call, real string, a request) (code int, err error) {
	cfg, err := loadConfig(c.bundle(), c.config())
	if err != nil {
		return 0, errline.Named(c.Name(), err)
	}
	a.withoutLive = true
	return w.place(c, real, cfg, a)
}

// requestOf reads the request of a container. ours is false for a container that Candor
// does not manage; the returned request then has only the CPUs that the user has chosen.
func (w *Wrapper) requestOf(c *Call, cfg *config) (a request, ours bool, err error) {
	has, err := amountIn(cfg.resources)
	if err != nil {
		return a, false, err
	}
	wish, err := settingsOf(cfg, &has, w.Class, w.Host.Config)
	if err != nil {
		return a, false, err
	}
	switch {
	case spec.ValueOr(wish.Preserve, false), has.CPUs != "":
		return request{cpus: has.CPUs}, false, nil
	case has.Mems != "":
		return a, false, errors.New("memory nodes without CPUs; omit them (topology single-numa selects both), or add --cpuset-cpus (then Candor does not manage the container)")
	}
	a.Allocation, err = wish.allocation(c.Name(), cfg, w.Class)
	a.env, a.systemd, a.weight = spec.ValueOr(wish.Env, false), c.Systemd, has.Weight
	a.EngineRequest = has.engineRequest()
	if reduced := host.OmitMountedFiles(a.View, cfg.hasMount); err == nil && reduced != a.View {
		err := fmt.Errorf("view %s instead of %s: Candor does not replace files that are mounted in /proc", reduced, a.View)
		c.warn(errline.Named(c.displayName(cfg), err))
		a.View = reduced
	}
	if err == nil {
		a.Engine, err = chosenGroup(cfg.groupPath)
		a.Engine.Name = c.engineName(cfg)
	}
	return a, true, err
}

// A request is an allocation with settings that host does not need.
type request struct {
	host.Allocation
	cpus    string // CPUs that the user has chosen; if set, Candor does not manage the container
	env     bool   // also set environment variables with the CPU count
	systemd bool   // the engine uses the cgroup driver systemd
	weight  string // weight that the user has requested, for a warning; Candor sets another weight

	withoutLive bool // do not mount the live files of the view
}

// grant allocates the CPUs and writes the edited configuration. On an error nothing has changed.
func (w *Wrapper) grant(ctx context.Context, h *host.Host, a request, cfg *config, own bundle) (*host.Grant, error) {
	e := edit{groupPath: cfg.groupPath, viewDir: h.ViewDir(a.ID), withoutLive: a.withoutLive, env: a.env, memory: a.Memory, hooks: w.hooks(started, a.ID)}
	var err error
	if a.Engine.Cgroup == "" {
		e.groupPath, e.grant, err = ownGroup(ctx, h, a, cfg)
	} else {
		e.grant, err = engineGroup(ctx, h, a)
	}
	if err != nil {
		return nil, err
	}
	e.mems, err = memsOf(h, e.grant)
	if err == nil {
		err = cfg.apply(e)
	}
	if err == nil {
		err = own.save(cfg)
	}
	if err != nil {
		err = errline.Join(err, own.remove(), h.ReleaseOwn(ctx, a.ID, true))
	}
	return e.grant, err
}

// ownGroup allocates for a container whose cgroup is below Candor's parent cgroup.
func ownGroup(ctx context.Context, h *host.Host, a request, cfg *config) (path string, g *host.Grant, err error) {
	path, systemd := h.OCIPath(a.ID)
	if err := checkDriver(cfg.groupPath, a.systemd, systemd); err != nil {
		return "", nil, err
	}
	if g, err = h.Allocate(ctx, a.Allocation); err != nil {
		return "", nil, err
	}
	if err = h.Prepare(ctx, a.ID); err != nil {
		err = errline.Join(err, h.ReleaseOwn(ctx, a.ID, true))
	}
	return path, g, err
}

// engineGroup allocates for a container whose cgroup is not below Candor's parent cgroup. The runtime creates this cgroup.
func engineGroup(ctx context.Context, h *host.Host, a request) (*host.Grant, error) {
	s, err := h.Snapshot()
	if err != nil {
		return nil, err
	}
	if g, err := s.Grant(a.ID); err == nil && g.Main.Alive() {
		return nil, errors.New("a container of that name still runs; end it first")
	}
	return h.Admit(ctx, a.Allocation, 0)
}

// leave lets the real runtime create a container that Candor does not manage. cpus are the CPUs that the user has set, or "".
func (w *Wrapper) leave(c *Call, real string, cfg *config, cpus string) error {
	h, err := w.open(c)
	switch {
	case err == nil:
		defer h.Close()
		err = h.CheckEngineGroup(cfg.groupPath)
	case cpus == "": // the container has no chosen CPUs, so it can be created without Candor
		err = nil
	}
	if err != nil {
		return err
	}
	if cpus == "" {
		return become(real, c.Args)
	}
	own, err := w.preserve(c, h, cfg, cpus)
	if err != nil {
		return err
	}
	return become(real, own.in(c))
}

// preserve reserves the CPUs that the user has set for a container (--cpuset-cpus), so that they are exclusive to no other
// container.
func (w *Wrapper) preserve(c *Call, h *host.Host, cfg *config, list string) (bundle, error) {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return "", fmt.Errorf("linux.resources.cpu.cpus: %w", err)
	}
	if err := h.Preserve(context.Background(), c.Name(), cpus, 0); err != nil {
		return "", err
	}
	own := bundle(h.BundleDir(c.Name()))
	if err = cfg.apply(edit{hooks: w.hooks(preserved, c.Name(), cpus.String())}); err == nil {
		err = own.save(cfg)
	}
	return own, err
}

// hooks returns candor's hook commands: for an event at the creation of the container's cgroup, and for the deletion of the
// container. Flags pass the settings of this process, because the environment of the runtime can differ.
func (w *Wrapper) hooks(event, name string, args ...string) hooks {
	env := []string{}
	for _, entry := range os.Environ() {
		key, _, _ := strings.Cut(entry, "=")
		if slices.Contains([]string{"PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}, key) {
			env = append(env, entry)
		}
	}
	command := append([]string{"candor"}, w.Self[1:]...)
	command = append(command, "--state-dir", w.Host.StateDir, "--config", w.Host.Config,
		"--cgroup-parent", w.Host.Cgroup.Parent, "--cgroup-driver", string(w.Host.Cgroup.Driver))
	return hooks{
		hook{w.Self[0], append(append(slices.Clip(command), event, name), args...), env},
		hook{w.Self[0], append(slices.Clip(command), stopped, name), env},
	}
}
