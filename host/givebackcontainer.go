package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/view"
)

// giveBackSettings first undoes Candor's moves of processes between cgroups (returnProcesses). Then it gives the container's
// cgroup the settings of its engine.
func (b *giveBackAttempt) giveBackSettings(g *Grant, group *cgroup.Group, isStray bool) error {
	populated, err := group.Populated()
	if err != nil && !isGoneError(err) {
		return err
	}
	switch {
	case !isStray && b.isStarting(g, populated):
		return ErrStarting
	case !populated:
		return b.giveBackEnded(g, group)
	case g.Lease.IsHeld() && !b.isDry:
		return fmt.Errorf("process %d (%s) %w", g.Lease.To.PID, procfs.NameOf(g.Lease.To.PID), errQuotaLeased)
	}
	if err := b.returnProcesses(g, group); err != nil {
		return err
	}
	wanted, err := group.CPUSettings()
	if err != nil {
		return err
	}
	if !isStray {
		wanted = b.settingsOfRequest(g)
	}
	return b.giveBackGroup(g, group, wanted)
}

// isStarting reports whether a runtime is still creating the cgroup of a container, and would write Candor's settings to this
// cgroup. An OCI runtime wrapper (Creator) lives until the container exists. If a GiveBack marks the state before the container
// exists, the wrapper fails. For a container of a pod, candor nri has ended and the runtime starts the container, so only
// startTime bounds the start.
func (b *giveBackAttempt) isStarting(g *Grant, populated bool) bool {
	switch {
	case g.State != Pending, !populated && hasEnded(g, false):
		return false
	case g.Engine.Pod == "" && g.Creator.Alive():
		return true
	default:
		return state.SinceBoot() < g.Since+b.startTime
	}
}

// giveBackEnded removes the cgroup of a container without processes, if Candor created the cgroup. An engine removes its cgroups
// itself. If a pod's container is held for a restart, it restarts without Candor.
func (b *giveBackAttempt) giveBackEnded(g *Grant, group *cgroup.Group) error {
	if b.isDry || g.Engine.Cgroup != "" {
		return nil
	}
	if err := group.Remove(); err != nil && !errors.Is(err, cgroup.ErrBusy) {
		return err
	}
	return nil
}

// giveBackLive makes the live files of a container's view show the machine's memory and CPU time.
func (b *giveBackAttempt) giveBackLive(g *Grant, group *cgroup.Group, _ bool) error {
	dir := b.store.ViewDir(g.ID)
	parts := view.ReadParts(dir)
	if parts == (view.LiveParts{}) {
		return nil
	}
	if populated, err := group.Populated(); !populated && (err == nil || isGoneError(err)) {
		return nil // no process can read the files
	}
	machine, err := view.ReadMachineMemory()
	if err != nil {
		return err
	}
	if isMachine, err := view.ShowsMachine(dir, parts); err == nil && isMachine {
		return nil
	}
	memory, _ := view.ReadMemTotal(dir) // for the report
	cpus, _ := view.ReadStatCPUs(dir)
	if !b.isDry {
		files, err := view.OpenLiveExisting(dir, parts)
		if err != nil {
			return err
		}
		defer files.Close()
		err = files.Update(files.WriteMachine)
		isMemoryDone, _ := view.ShowsMachine(dir, view.LiveParts{Memory: parts.Memory})
		if errors.Is(err, unix.ENOSPC) && isMemoryDone { // stat of all CPUs is larger; meminfo and swaps have a constant length
			b.log.Warn("a container still sees its former CPUs in /proc/stat, because the state directory has no space", logName(g.ID, &g.Engine), "cpus", cpus)
			return nil
		}
		if err != nil {
			return err
		}
	}
	b.add(changeOf(g), SettingLive, liveText(parts, memory, cpus), liveText(parts, machine.Total, b.online))
	return nil
}

// liveText describes the memory and the CPUs that the live files of a view show.
func liveText(parts view.LiveParts, memory int64, cpus cpuset.Set) string {
	var all []string
	if parts.Memory {
		all = append(all, fmt.Sprintf("%d MiB", memory>>20))
	}
	if parts.Stat {
		all = append(all, "stat of "+cpus.String())
	}
	return strings.Join(all, ", ")
}

// giveBackView makes the files of a container's view show the machine's CPUs. It rewrites files that cannot be read.
func (b *giveBackAttempt) giveBackView(g *Grant, group *cgroup.Group, _ bool) error {
	shown, err := b.store.ShownCPUs(g.ID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && shown == b.online {
		return nil
	}
	if populated, err := group.Populated(); !populated && (err == nil || isGoneError(err)) {
		return nil // no process can read the view
	}
	if !b.isDry {
		wide := *g
		wide.CPUs = b.online
		err := b.views.write(b.store, &wide, false)
		if errors.Is(err, unix.ENOSPC) { // the wider files are larger, and only the removal of the state frees space
			b.log.Warn("a container still sees its former CPUs, because the state directory has no space", logName(g.ID, &g.Engine), "cpus", shown)
			return nil
		}
		if err != nil {
			return err
		}
	}
	b.add(changeOf(g), SettingView, shown.String(), b.online.String())
	return nil
}

// returnProcesses moves frozen processes back to the container's cgroup, and helpers back to their own cgroups.
func (b *giveBackAttempt) returnProcesses(g *Grant, group *cgroup.Group) error {
	if g.Lease.Frozen {
		b.add(changeOf(g), SettingFreezer, "charged", "")
	}
	if group.HasHelpers() {
		b.add(changeOf(g), SettingHelpers, "placed", "")
	}
	if b.isDry {
		return nil
	}
	switch err := group.RemoveFreezer(); {
	case errors.Is(err, unix.EBUSY): // its processes run
		b.log.Warn("the freezer cgroup of Candor remains, because the container has created cgroups in it", logName(g.ID, &g.Engine))
	case err != nil:
		return err
	}
	return group.ReturnHelpers()
}

// giveBackGroup gives a cgroup the settings of its engine.
func (b *giveBackAttempt) giveBackGroup(g *Grant, group *cgroup.Group, wanted cgroup.CPUSettings) error {
	before, err := group.CPUSettings()
	if err != nil {
		return err
	}
	cpusBefore, memsBefore, err := group.Effective()
	if err != nil {
		return err
	}
	hasFewerCPUs, hasFewerMems, err := group.IsConfined()
	if err != nil {
		return err
	}
	if !b.isDry {
		if err := group.GiveBack(wanted); err != nil {
			return err
		}
		b.unreachable = b.unreachable || group.HasUnreachableUnit()
	}
	cpus, mems, err := group.EffectiveAbove()
	if err != nil {
		return err
	}
	if hasFewerCPUs {
		b.add(changeOf(g), SettingCPUs, cpusBefore.String(), cpus.String())
	}
	if hasFewerMems {
		b.add(changeOf(g), SettingMems, memsBefore.String(), mems.String())
	}
	b.addLimits(changeOf(g), &before, &wanted)
	return nil
}

// addLimits adds the changes of the cpu controller's settings.
func (b *giveBackAttempt) addLimits(of SettingChange, before, after *cgroup.CPUSettings) {
	b.add(of, SettingQuota, limitsText(&before.CPULimits), limitsText(&after.CPULimits))
	b.add(of, SettingBurst, durationText(before.Burst), durationText(after.Burst))
	b.add(of, SettingWeight, fmt.Sprint(before.Weight), fmt.Sprint(after.Weight))
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
func (b *giveBackAttempt) giveBackPod(path string) error {
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
	b.add(SettingChange{Container: path}, SettingPod, podText(&current), podText(&wanted))
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

// changeOf returns a SettingChange with the name of a container.
func changeOf(g *Grant) SettingChange { return SettingChange{Container: g.DisplayName(), ID: g.ID} }

// add adds a change of a setting to the container named in change, unless both values are equal.
func (b *giveBackAttempt) add(change SettingChange, setting Setting, before, after string) {
	if before == after {
		return
	}
	change.Setting, change.Before, change.After = setting, before, after
	b.changes = append(b.changes, change)
}
