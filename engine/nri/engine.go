package nri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/kube/events"
	"github.com/candor-project/candor/metrics"
	"github.com/candor-project/candor/spec"
)

// An Engine allocates the CPUs of the containers of a runtime. Its methods handle the events in the life of a container.
type Engine struct {
	host   *host.Host
	log    *slog.Logger
	config atomic.Pointer[Config]

	node       string // name of the node in the cluster; "": unknown
	metrics    *metrics.Metrics
	events     events.Sink
	observes   bool // only plan (see Observe)
	words      logWords
	expect     func() // the host's ExpectMoves
	unbound    unbound
	notes      startRecords
	kubelets   kubeletWatch
	reconnects reconnects     // used only by the goroutine of Run
	flapping   atomic.Bool    // copy of reconnects.isFlapping for other goroutines
	later      sync.WaitGroup // waits for the pending start records
}

// NewEngine returns an engine that plans on a host.
func NewEngine(h *host.Host, c *Config, log *slog.Logger) *Engine {
	e := &Engine{host: h, log: log, metrics: metrics.New(""), events: (*events.Recorder)(nil), words: acting, expect: h.ExpectMoves, reconnects: newReconnects()}
	e.config.Store(c)
	return e
}

// Policy returns the default policy of sensitive containers.
func (e *Engine) Policy() hybrid.Policy {
	return spec.ValueOr(e.config.Load().Node.Policy, hybrid.Strict)
}

// OnNode sets the node's name in the cluster, so that the engine ignores hints for other nodes. It must be called before Run.
func (e *Engine) OnNode(name string) { e.node = name }

// SetConfig sets a new configuration for later events.
func (e *Engine) SetConfig(c *Config) { e.config.Store(c) }

// Create allocates CPUs for a container that the runtime is about to create. When Create returns, no other container runs on the
// container's exclusive CPUs. An error refuses the container with the reason. If Config.HeadStart is set, Create also prepares
// the kernel for the move of the container's first process (Host.ExpectMoves), for planned and preserved containers.
func (e *Engine) Create(ctx context.Context, p *Pod, ctr *Container) (Reply, error) {
	r, err := e.admit(ctx, p, ctr)
	if err == nil && e.config.Load().HeadStart {
		e.expect()
	}
	return r, err
}

func (e *Engine) admit(ctx context.Context, p *Pod, ctr *Container) (Reply, error) {
	a, why, preserved, err := allocation(e.config.Load(), p, ctr)
	if err == nil && preserved {
		err = e.host.CheckEngineGroup(ctr.Cgroup)
	}
	switch {
	case err != nil:
		return Reply{}, refused(p, ctr, err)
	case preserved:
		return Reply{}, nil
	case ctr.CPUs != "":
		return Reply{}, refused(p, ctr, fmt.Errorf("another program assigns it the CPUs %s; set cpuManagerPolicy: none in the kubelet's configuration, "+
			"disable other NRI plugins that assign CPUs, or use the annotation candor.dev/preserve: \"true\"", ctr.CPUs))
	}
	if why != "" {
		e.log.Warn("treated as flexible", "container", a.Engine.Name, "id", a.ID, "reason", why)
		e.metrics.Downgraded(downgradeReason(&ctr.CPU))
		e.recordDowngrade(p, ctr, why)
	}
	if a.Class == hybrid.Sensitive {
		a.Hint = e.hint(p, ctr)
	}
	a.EngineRequest = &host.EngineRequest{QuotaUs: ctr.Quota, PeriodUs: ctr.Period, Shares: ctr.Shares}
	g, err := e.host.Admit(ctx, a, milliOf(p.Shares))
	if err != nil {
		return Reply{}, refused(p, ctr, err)
	}
	e.log.Info(e.words.planned, "container", a.Engine.Name, "id", a.ID, "class", g.Class, "limit", g.Limit, "cpus", g.CPUs)
	e.warnSharedCPUs(g)
	r, err := e.reply(g)
	r.Env = environment(e.config.Load(), p, ctr, g)
	return r, err
}

// refused returns the error about a container that the engine refuses. Like the log, it has the container's whole name. The
// runtime reports it to the user, for example in an Event of the pod.
func refused(p *Pod, ctr *Container, err error) error {
	return fmt.Errorf("candor: container %w", errline.Named(fullName(p, ctr), err))
}

// Update plans a new limit of a container. The reply has the settings that result from the plan, which can differ from the
// request. For an unplanned container, the reply changes nothing.
func (e *Engine) Update(ctx context.Context, p *Pod, ctr *Container) (Reply, error) {
	name := grantName(p, ctr.Name)
	if err := e.recordStartNow(ctx, name); err != nil { // the notification needs the first process
		return Reply{}, refused(p, ctr, err)
	}
	g, err := e.grantOf(name, ctr)
	if g == nil || err != nil {
		return Reply{}, err
	}
	limit, guarantee := amounts(g.Class, &ctr.CPU)
	if ctr.Quota == 0 { // the update does not set a limit
		limit = g.Limit
	}
	if ctr.Shares == 0 {
		guarantee = g.Guarantee
	}
	if g.Class == hybrid.Sensitive && limit == 0 {
		err := fmt.Errorf("%w: a sensitive container needs a CPU limit", host.ErrBadSpec)
		e.log.Warn(e.words.resizeRefused, "container", g.Engine.Name, "id", g.ID, "limit", "none", "reason", err)
		return Reply{}, refused(p, ctr, err)
	}
	_, after, err := e.host.ResizeOf(ctx, name, g.Engine.Cgroup, limit, guarantee)
	if err != nil {
		e.log.Warn(e.words.resizeRefused, "container", g.Engine.Name, "id", g.ID, "limit", limit, "reason", err)
		return Reply{}, refused(p, ctr, err)
	}
	if after.Limit != g.Limit {
		e.notifyResize(ctx, after)
	}
	return e.reply(after)
}

// Updated handles the event that the runtime has written the reply to an update into the container's cgroup.
func (e *Engine) Updated(ctx context.Context, p *Pod, ctr *Container) error {
	name := grantName(p, ctr.Name)
	g, err := e.grantOf(name, ctr)
	if g == nil || err != nil {
		return err
	}
	return e.host.ReapplyAfterEngineWrite(ctx, name)
}

// notifyResize notifies a container of its new size by its configured method.
func (e *Engine) notifyResize(ctx context.Context, g *host.Grant) {
	if e.observes {
		e.log.Info(e.words.resized, "container", g.Engine.Name, "id", g.ID, "limit", g.Limit, "cpus", g.CPUs)
		return
	}
	var out strings.Builder
	done, err := e.host.Notify(ctx, g, &out, &out)
	if err != nil {
		e.log.Warn(e.words.resized+", but the program is not notified", "container", g.Engine.Name, "id", g.ID, "limit", g.Limit, "cpus", g.CPUs, "reason", err)
		return
	}
	e.log.Info(e.words.resized, "container", g.Engine.Name, "id", g.ID, "limit", g.Limit, "cpus", g.CPUs, "notification", done)
}

// grant returns the grant of a container, or nil if there is none.
func (e *Engine) grant(name string) (*host.Grant, error) {
	s, err := e.host.Snapshot()
	if err != nil {
		return nil, err
	}
	g, err := s.Grant(name)
	if errors.Is(err, hybrid.ErrUnknownID) {
		return nil, nil
	}
	return g, err
}

// grantOf returns the grant of a container if the grant is for the container's cgroup. It returns nil if another container has
// taken over the name.
func (e *Engine) grantOf(name string, ctr *Container) (*host.Grant, error) {
	g, err := e.grant(name)
	if g == nil || err != nil {
		return nil, err
	}
	path, err := cgroup.EnginePath(ctr.Cgroup)
	if err != nil || path != g.Engine.Cgroup {
		return nil, err
	}
	return g, nil
}

// Stop handles the end of a container. The container's CPUs stay reserved for its pod.
func (e *Engine) Stop(ctx context.Context, p *Pod, ctr *Container) error {
	a, _, preserved, err := e.requestOf(p, ctr)
	switch {
	case err != nil:
		return err
	case preserved && ctr.CPUs == "":
		e.unbound.end(ctr.Cgroup)
		return nil
	case preserved:
		return e.host.EndPreserve(ctx, grantName(p, ctr.Name))
	default:
		return e.host.Stopped(ctx, a.ID, a.Engine.Cgroup)
	}
}

// EndSandbox handles the end of a pod's sandbox. The pod can already have another sandbox.
func (e *Engine) EndSandbox(ctx context.Context, p *Pod) error {
	return e.host.EndSandbox(ctx, p.UID, p.Sandbox)
}

// A Running is a running container with its pod.
type Running struct {
	Pod       *Pod
	Container *Container
}

// Sync handles the list of running containers when the plugin and the runtime connect. It does not move a container that has
// its granted settings.
func (e *Engine) Sync(ctx context.Context, pods []*Pod, running []Running) error {
	s, err := e.host.Snapshot()
	if err != nil {
		s = &host.Snapshot{} // Host.Sync reports or repairs the fault
	}
	e.unbound.endAll()
	var all []host.Allocation
	for _, r := range running {
		a, preserved, err := e.adoptRequest(s, &r)
		switch {
		case err != nil: // an error of a single container does not affect the others
			e.log.Warn("cannot adopt a running container", "container", fullName(r.Pod, r.Container), "id", grantName(r.Pod, r.Container.Name), "reason", err)
		case !preserved:
			a.PID = r.Container.PID
			all = append(all, a)
		default:
			if err := e.preserve(ctx, r.Pod, r.Container); err != nil {
				e.log.Warn("cannot reserve the CPUs of a preserved container", "container", fullName(r.Pod, r.Container), "id", grantName(r.Pod, r.Container.Name), "reason", err)
			}
		}
	}
	sandboxes := make([]string, len(pods))
	for i, p := range pods {
		sandboxes[i] = p.Sandbox
	}
	return e.host.Sync(ctx, all, sandboxes)
}

// adoptRequest returns the allocation of a running container from its grant and the runtime's record, because the container can
// have been resized while no plugin ran.
func (e *Engine) adoptRequest(s *host.Snapshot, r *Running) (a host.Allocation, preserved bool, err error) {
	a, why, preserved, err := e.requestOf(r.Pod, r.Container)
	if err == nil {
		err = e.host.CheckEngineGroup(r.Container.Cgroup)
	}
	if err != nil || preserved {
		return a, preserved, err
	}
	if why != "" {
		e.log.Warn("treated as flexible", "container", a.Engine.Name, "id", a.ID, "reason", why)
	}
	g, err := s.Grant(a.ID)
	switch limit := r.Container.recorded(a.Class); {
	case err == nil:
		e.keepGrantUnlessResized(&a, g, &r.Container.Now)
	case limit != 0:
		a.Limit = limit
	}
	if err != nil && why != "" { // the container started without the plugin
		e.recordDowngrade(r.Pod, r.Container, why)
	}
	return a, false, a.Check()
}

// keepGrantUnlessResized sets an allocation to the values of its grant, except for values that were resized later, as the
// runtime's record shows.
func (e *Engine) keepGrantUnlessResized(a *host.Allocation, g *host.Grant, now *CPU) {
	a.Request = g.Request
	r, err := e.reply(g)
	if err != nil {
		return
	}
	limit, guarantee := amounts(g.Class, now)
	if now.Quota > 0 && limit != (&CPU{Quota: r.Quota, Period: r.Period}).limit() {
		a.Limit = limit
	}
	if g.Class == hybrid.Flexible && now.Shares != 0 && now.Shares != r.Shares {
		a.Guarantee = guarantee
	}
}

// Repair compares the cgroups with the state and corrects differences. Events do not wait for Repair's result, but an event that
// arrives during Repair waits for the lock of the state.
func (e *Engine) Repair(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	return e.host.Reconcile(ctx)
}

// firstProcess returns the first process of a container, or 0 if it is unknown. If the runtime does not report this process, as
// CRI-O, firstProcess searches the cgroup.
func (e *Engine) firstProcess(p *Pod, ctr *Container) (pid int) {
	path, err := cgroup.EnginePath(ctr.Cgroup)
	if ctr.PID != 0 || err != nil {
		return ctr.PID
	}
	return e.host.FirstIn(grantName(p, ctr.Name), path)
}

// Start handles the event that the container's cgroup and first process exist, before the program runs. It applies the present
// grant to the cgroup.
func (e *Engine) Start(ctx context.Context, p *Pod, ctr *Container) error {
	ctr.PID = e.firstProcess(p, ctr)
	a, _, preserved, err := e.requestOf(p, ctr)
	switch {
	case err != nil:
		return err
	case preserved:
		return e.preserve(ctx, p, ctr)
	case e.host.MatchesGrant(&a, ctr.PID):
		e.recordStartLater(a, ctr.PID)
		return nil
	default:
		return e.host.ConfirmStart(ctx, a, ctr.PID)
	}
}

// requestOf returns the request of an existing container. A planned container stays planned, even if the settings now preserve
// it, because the runtime has recorded Candor's CPUs for the container.
func (e *Engine) requestOf(p *Pod, ctr *Container) (a host.Allocation, why string, preserved bool, err error) {
	a, why, preserved, err = allocation(e.config.Load(), p, ctr)
	if !preserved {
		return a, why, preserved, err
	}
	planned := *ctr
	planned.Planned = true
	b, why, _, err := allocation(e.config.Load(), p, &planned)
	if err != nil {
		return a, "", true, nil //nolint:nilerr // the container stays preserved
	}
	if g, err := e.grant(b.ID); err == nil && g != nil && g.Engine.Cgroup == b.Engine.Cgroup {
		return b, why, false, nil
	}
	return a, "", true, nil
}
