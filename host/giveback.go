package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/view"
)

// GiveBack is the end of Candor on a machine: all containers continue with the settings of their engines. It works on
// one container after the other and removes the container's record from the state last. If candor is killed at any
// point, the next GiveBack therefore finds the containers that remain, and writes the same settings again.

// A SettingChange is a setting of a container that GiveBack has changed, or would change.
type SettingChange struct {
	Container string // display name
	Setting   Setting
	Before    string
	After     string
}

// Settings of a SettingChange that are no parts of a cgroup's settings.
const (
	SettingFreezer Setting = "freezer" // the nested cgroup of a charged container
	SettingHelpers Setting = "helpers" // processes outside of the container in its cgroup
	SettingPod     Setting = "pod"     // quota and weight of a pod's cgroup
)

// ErrStarting means that the runtime of a container is about to create its cgroup.
var ErrStarting = errors.New("is being started; repeat the command")

// GiveBack gives every container the quota, period, burst and weight that its engine requested, and the CPUs and memory
// nodes of the cgroup above. A program of candor run gets its limit as a quota. Views show the machine's CPUs. Then
// GiveBack removes the state, and Candor's parent cgroup if it is empty. With dry it changes nothing.
//
// No candor nri may run (CheckNoAgent). A container that ends meanwhile is no error. If some containers fail, the state
// keeps their records for another call. The error is ErrStarting or view.ErrLeased if such a call can soon succeed.
func (h *Host) GiveBack(ctx context.Context, dry bool) (changes []SettingChange, err error) {
	if err := h.CheckPlanOnly(); err != nil {
		return nil, err
	}
	b := &giveBack{Host: h, isDry: dry, online: cpuset.Set{}}
	err = outsideViews(func() error { return b.run(ctx) })
	return b.changes, err
}

// A giveBack is one call of GiveBack.
type giveBack struct {
	*Host
	isDry   bool
	online  cpuset.Set   // CPUs of the machine
	saved   *state.Saved // present content of the state file
	grants  []*Grant     // grants that remain
	strays  []*Grant     // running containers of Candor's own cgroups that are missing from the state
	changes []SettingChange
}

func (b *giveBack) run(ctx context.Context) error {
	machine, err := b.machine.get()
	if err != nil {
		return err
	}
	b.online = machine.Online
	if !b.isDry {
		lock, err := b.createLock(ctx)
		if err != nil {
			return err
		}
		defer lock.release()
		if err := b.tree.Refresh(); err != nil { // on v1, CPUs that were offline
			return err
		}
	}
	if err := b.load(); err != nil {
		return err
	}
	if err := b.endLeases(ctx); err != nil {
		return err
	}
	var errs []error
	for _, batch := range b.batches() {
		err := b.giveBackBatch(batch)
		if err == nil {
			err = b.forget(batch)
		}
		errs = append(errs, err)
	}
	if err := errline.Join(errs...); err != nil || b.isDry {
		return err
	}
	if err := b.store.Remove(); err != nil {
		return err
	}
	if err := b.tree.Remove(); err != nil && !errors.Is(err, cgroup.ErrBusy) { // programs that go on keep the parent cgroup
		return err
	}
	return nil
}

// load reads the grants, and finds the containers that are missing from the state.
func (b *giveBack) load() error {
	if err := b.checkOwner(); err != nil {
		return err
	}
	boot, err := procfs.BootID()
	if err != nil {
		return err
	}
	saved, err := b.store.Load()
	var broken *state.BrokenError
	switch {
	case errors.As(err, &broken):
		saved = new(state.Saved)
	case err != nil:
		return err
	case saved.Boot != boot:
		saved = new(state.Saved)
	}
	b.saved, b.grants = saved, slices.Clone(saved.Grants)
	if len(b.grants) == 0 { // the state was lost: the request files name the containers
		b.grants = b.store.Requests()
	}
	names, err := b.tree.Groups()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(b.grants, func(g *Grant) bool { return g.ID == name }) {
			g := new(Grant)
			g.ID = name
			b.strays = append(b.strays, g)
		}
	}
	return nil
}

// checkOwner returns cgroup.ErrOwned if Candor's parent cgroup belongs to another state.
func (b *giveBack) checkOwner() error {
	if !b.isDry {
		return b.tree.Claim()
	}
	owner, err := b.tree.Owner()
	if err != nil || owner == "" || owner == b.store.Dir {
		return err
	}
	if names, err := b.tree.Groups(); err != nil || len(names) == 0 {
		return err
	}
	return b.tree.Owned(owner)
}

// loopTime is the time in which the loop of package quota notices a changed state and restores the quotas.
const loopTime = 1500 * time.Millisecond

// endLeases makes other processes release the quotas of the containers that they have leased. Their loops select running
// containers only.
func (b *giveBack) endLeases(ctx context.Context) error {
	grants, found := slices.Clone(b.grants), false
	for i, g := range grants {
		if g.State == Running && g.Lease.IsHeld() {
			held := *g
			held.State, found = Held, true
			grants[i] = &held
		}
	}
	if !found || b.isDry {
		return nil
	}
	b.grants = grants
	if err := b.save(); err != nil {
		return err
	}
	select {
	case <-time.After(loopTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// save writes the grants that remain to the state file, if there is a state file.
func (b *giveBack) save() error {
	if len(b.saved.Grants) == 0 {
		return nil
	}
	next, isChanged, err := b.saved.Next(b.saved.Boot, b.grants)
	if err != nil || !isChanged {
		return err
	}
	if err := b.store.Save(next); err != nil {
		return err
	}
	b.saved = next
	return nil
}

// A batch is a list of containers that leave the state together: the containers of a pod, or a single container. The
// cgroup of a pod gets its settings after its containers, and before they leave the state.
type batch struct {
	pod        string // path of the pod's cgroup, or ""
	containers []*Grant
	isStray    bool
}

func (b *giveBack) batches() (all []batch) {
	for _, g := range b.grants {
		pod := g.Engine.PodGroup()
		i := slices.IndexFunc(all, func(other batch) bool { return pod != "" && other.pod == pod })
		if i >= 0 {
			all[i].containers = append(all[i].containers, g)
		} else {
			all = append(all, batch{pod: pod, containers: []*Grant{g}})
		}
	}
	for _, g := range b.strays {
		all = append(all, batch{containers: []*Grant{g}, isStray: true})
	}
	return all
}

func (b *giveBack) giveBackBatch(batch batch) error {
	var errs []error
	for _, g := range batch.containers {
		if err := b.giveBackContainer(g, batch.isStray); err != nil && !b.hasEnded(g, err) {
			errs = append(errs, fmt.Errorf("%s: %w", displayName(g), err))
		}
	}
	if batch.pod != "" && len(errs) == 0 {
		if err := b.giveBackPod(batch.pod); err != nil && !isGoneError(err) {
			errs = append(errs, err)
		}
	}
	return errline.Join(errs...)
}

// hasEnded reports whether an error means that a container has ended meanwhile: its cgroup is missing, and not only a
// file.
func (b *giveBack) hasEnded(g *Grant, err error) bool {
	if !isGoneError(err) {
		return false
	}
	runs, err := b.groupOf(g).Populated()
	return !runs && (err == nil || isGoneError(err))
}

// forget removes the containers of a batch from the state, and then their files.
func (b *giveBack) forget(batch batch) error {
	if b.isDry || batch.isStray {
		return nil
	}
	b.grants = slices.DeleteFunc(slices.Clone(b.grants), func(g *Grant) bool { return slices.Contains(batch.containers, g) })
	if err := b.save(); err != nil {
		return err
	}
	var errs []error
	for _, g := range batch.containers {
		b.views.close(g.ID)
		errs = append(errs, b.store.RemoveFiles(g.ID))
	}
	return errline.Join(errs...)
}

func (b *giveBack) giveBackContainer(g *Grant, isStray bool) error {
	group := b.groupOf(g)
	populated, err := group.Populated()
	if err != nil && !isGoneError(err) {
		return err
	}
	if !populated {
		return b.giveBackEnded(g, group, isStray)
	}
	if err := b.giveBackView(g); err != nil {
		return err
	}
	if err := b.returnProcesses(g, group); err != nil {
		return err
	}
	wanted, err := group.EngineSettings()
	if err != nil {
		return err
	}
	if !isStray {
		wanted = b.engineSettings(g)
	}
	return b.giveBackGroup(displayName(g), group, wanted)
}

// giveBackEnded handles a container without processes. A container of a pod can be held for a restart: the next
// container then starts without Candor.
func (b *giveBack) giveBackEnded(g *Grant, group *cgroup.Group, isStray bool) error {
	if g.State == Pending && !isStray && !hasEnded(g, false) {
		return ErrStarting
	}
	if b.isDry || g.Engine.Cgroup != "" {
		return nil
	}
	if err := group.Remove(); err != nil && !errors.Is(err, cgroup.ErrBusy) {
		return err
	}
	return nil
}

// giveBackView makes the files of a container's view show the machine's CPUs.
func (b *giveBack) giveBackView(g *Grant) error {
	shown, err := b.store.ShownCPUs(g.ID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && shown == b.online {
		return nil
	}
	if err != nil && !errors.Is(err, view.ErrLeased) {
		return err
	}
	if !b.isDry {
		wide := *g
		wide.CPUs = b.online
		if err := b.views.write(b.store, &wide, false); err != nil {
			return err
		}
	}
	b.add(displayName(g), SettingView, shown.String(), b.online.String())
	return nil
}

// returnProcesses moves frozen processes back to the container's cgroup, and helpers back to their own cgroups.
func (b *giveBack) returnProcesses(g *Grant, group *cgroup.Group) error {
	if g.Lease.Frozen {
		b.add(displayName(g), SettingFreezer, "charged", "")
	}
	if group.HasHelpers() {
		b.add(displayName(g), SettingHelpers, "placed", "")
	}
	if b.isDry {
		return nil
	}
	freezer, err := b.tree.OpenFreezer(usageName(g))
	switch {
	case errors.Is(err, cgroup.ErrNoFreezer), isGoneError(err): // no process of Candor can have frozen it
	case err != nil:
		return err
	default:
		if err := freezer.Close(); err != nil {
			return err
		}
	}
	return group.ReturnHelpers()
}

// giveBackGroup gives a cgroup the settings of its engine.
func (b *giveBack) giveBackGroup(name string, group *cgroup.Group, wanted cgroup.EngineSettings) error {
	before, err := group.EngineSettings()
	if err != nil {
		return err
	}
	cpusBefore, memsBefore, err := group.Effective()
	if err != nil {
		return err
	}
	isCPUs, isMems, err := group.IsConfined()
	if err != nil {
		return err
	}
	if !b.isDry {
		if err := group.GiveBack(wanted); err != nil {
			return err
		}
	}
	cpus, mems, err := group.EffectiveAbove()
	if err != nil {
		return err
	}
	if isCPUs {
		b.add(name, SettingCPUs, cpusBefore.String(), cpus.String())
	}
	if isMems {
		b.add(name, SettingMems, memsBefore.String(), mems.String())
	}
	b.addLimits(name, &before, &wanted)
	return nil
}

// addLimits adds the changes of the cpu controller's settings.
func (b *giveBack) addLimits(name string, before, after *cgroup.EngineSettings) {
	b.add(name, SettingQuota, limitsText(&before.CPULimits), limitsText(&after.CPULimits))
	b.add(name, SettingBurst, durationText(before.Burst), durationText(after.Burst))
	b.add(name, SettingWeight, fmt.Sprint(before.Weight), fmt.Sprint(after.Weight))
}

// limitsText formats a quota with its period, or "" for no quota.
func limitsText(l *cgroup.CPULimits) string {
	if l.Quota == 0 {
		return ""
	}
	return fmt.Sprintf("%v per %v", l.Quota, l.Period)
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// giveBackPod gives a pod's cgroup the quota and weight of the kubelet.
func (b *giveBack) giveBackPod(path string) error {
	group := b.tree.EngineGroup("pod", path)
	record, err := readPodRecord(group)
	if err != nil || record == (podRecord{}) {
		return err
	}
	current, err := group.CPULimits()
	if err != nil {
		return err
	}
	op := &operation{Host: b.Host}
	wanted := record.kubeletLimits(current, op.liftedQuota(current.Period), 0)
	b.add(path, SettingPod, podText(&current), podText(&wanted))
	if b.isDry {
		return nil
	}
	if wanted != current {
		if err := group.SetCPULimits(wanted); err != nil {
			return err
		}
	}
	return group.RemoveAnnotation()
}

func podText(l *cgroup.CPULimits) string {
	if l.Quota == 0 {
		return fmt.Sprintf("weight %d", l.Weight)
	}
	return fmt.Sprintf("quota %v, weight %d", l.Quota, l.Weight)
}

// add adds a change, unless both values are equal.
func (b *giveBack) add(name string, setting Setting, before, after string) {
	if before != after {
		b.changes = append(b.changes, SettingChange{name, setting, before, after})
	}
}

// displayName returns the name of a container in its engine, or its ID.
func displayName(g *Grant) string {
	if name := g.Engine.DisplayName().String(); name != "" {
		return name
	}
	return g.ID
}

// IsInUse reports whether there is a state. GiveBack removes it.
func (h *Host) IsInUse() bool { return h.store.IsInUse() }

// removeLeftover removes the cgroup of a container that has ended after GiveBack, and Candor's parent cgroup if it is
// empty then. The error is ErrPopulated if processes of the container still run.
func (h *Host) removeLeftover(name string) error {
	err := h.tree.Group(name).Remove()
	if errors.Is(err, cgroup.ErrBusy) {
		return fmt.Errorf("%s: %w", name, ErrPopulated)
	}
	if err == nil {
		_ = h.tree.Remove() // fails while other programs run below it
	}
	return err
}
