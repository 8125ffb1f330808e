package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// The live files of a view (view.LiveFiles) show the memory and the CPU time of a container. A single process refreshes them at a
// time: candor run for its program, and candor nri or candor view refresh for all other containers. Without such a process, the
// files keep the values of the start, or of the last change of the limit.

// A liveView is a view whose live files this process has open.
type liveView struct {
	files     *view.LiveFiles
	group     string    // path or name of the container's cgroup
	logName   slog.Attr // of the container
	since     time.Time
	isWatched bool // the refresher has the files
}

func newLiveView(g *Grant, files *view.LiveFiles) *liveView {
	return &liveView{files: files, group: groupName(g), logName: logName(g.ID, &g.Engine), since: time.Now()}
}

// LiveParts returns the live files of a container's view.
func LiveParts(g *Grant) view.LiveParts {
	return view.LiveParts{Memory: g.View.HasMemory(), Stat: g.View.HasStat()}
}

// OmitMountedFiles returns the view without the live files at whose paths another program, such as LXCFS, mounts its own files in a
// container.
func OmitMountedFiles(v spec.View, isMounted func(path string) bool) spec.View {
	for _, bind := range view.LiveBinds("", view.LiveParts{Memory: true, Stat: true}) {
		if !isMounted(bind.Target) {
			continue
		}
		if bind.Target == view.HostStat {
			v = v.WithoutStat()
		} else {
			v = v.WithoutMemory()
		}
	}
	return v
}

// groupName returns the path of an engine's cgroup, or the name of a cgroup of Candor.
func groupName(g *Grant) string { return cmp.Or(g.Engine.Cgroup, g.ID) }

// startLive creates the live files of a container that starts, and writes them. They stay open if hold is set. Files of a former
// container of that name remain in the mount namespaces of its processes only.
func (op *operation) startLive(g *Grant, hold bool) error {
	dir, parts := op.store.ViewDir(g.ID), LiveParts(g)
	v := &op.views
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closeLive(g.ID)
	if err := view.RemoveLive(dir); err != nil || parts == (view.LiveParts{}) {
		return err
	}
	files, err := view.OpenLive(dir, parts)
	if err != nil {
		return err
	}
	l := newLiveView(g, files)
	if err := op.writeFirst(g, l); err != nil {
		files.Close()
		return err
	}
	if !hold && !v.isAll {
		files.Close()
		return nil
	}
	v.putLive(g.ID, l)
	if err := v.watch(op.Host, g); err != nil { // the values of the start are right
		op.refreshFailed(g.ID, l.logName, err)
	}
	return nil
}

// writeFirst writes the live files of a container that starts.
func (op *operation) writeFirst(g *Grant, l *liveView) error {
	parts := LiveParts(g)
	if parts.Memory {
		machine, err := view.ReadMachineMemory()
		if err != nil {
			return err
		}
		m, err := op.startMemory(g)
		if err != nil {
			return err
		}
		if err := l.files.WriteMemory(m, machine); err != nil {
			return err
		}
	}
	if !parts.Stat {
		return nil
	}
	return l.files.WriteStat(view.StatSample{Time: state.SinceBoot(), CPUs: g.CPUs})
}

func (v *openViews) putLive(name string, l *liveView) {
	if v.live == nil {
		v.live = map[string]*liveView{}
	}
	v.live[name] = l
}

// closeLive closes the live files of a container. The caller must hold the mutex.
func (v *openViews) closeLive(name string) {
	l := v.live[name]
	if l == nil {
		return
	}
	delete(v.live, name)
	if v.refresher != nil {
		v.refresher.Remove(name)
	}
	l.files.Close()
}

// keepLive keeps the live files of a running container current, unless another process does. It is for a process that keeps the views
// of all containers open.
func (v *openViews) keepLive(h *Host, g *Grant) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.live[g.ID]
	if l != nil && (l.group != groupName(g) || !l.files.IsCurrent()) {
		v.closeLive(g.ID)
		l = nil
	}
	if l == nil {
		if g.State != Running {
			return nil
		}
		files, err := view.OpenLiveExisting(h.store.ViewDir(g.ID), LiveParts(g))
		if errors.Is(err, view.ErrRefreshed) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.isGivingBack() { // a GiveBack marks the state before it opens the files, and waits for a process that has them open
			files.Close()
			return nil
		}
		v.putLive(g.ID, newLiveView(g, files))
	}
	return v.watch(h, g)
}

// watch adds the live files of a container to the refresher. Before the container runs, its cgroup can lack the limit, which the
// runtime writes after the creation of the cgroup.
func (v *openViews) watch(h *Host, g *Grant) error {
	if g.State != Running {
		return nil
	}
	return v.watchLive(h, g.ID, v.live[g.ID])
}

// watchLive adds the live files of a running container to the refresher. The caller must hold the mutex.
func (v *openViews) watchLive(h *Host, name string, l *liveView) error {
	if l.isWatched || v.refresher == nil {
		return nil
	}
	if err := h.refreshLive(name, l, false); err != nil { // the files can be old
		return err
	}
	err := v.refresher.Add(name, l.files.Files(), func(isRead bool) error { return h.refreshLive(name, l, isRead) })
	l.isWatched = err == nil || errors.Is(err, view.ErrNotWatched)
	return err
}

// refreshLive writes the present memory and CPU time of a container to its live files. It writes nothing if the container has
// ended. isRead reports that a program reads the files, so that another refresh follows soon.
func (h *Host) refreshLive(name string, l *liveView, isRead bool) error {
	err := l.files.Update(func() error {
		return errline.Join(unlessGone(h.refreshMemory(l, isRead)), unlessGone(h.refreshStat(name, l)))
	})
	if err != nil {
		return err
	}
	h.degraded.remove(name, SettingLive)
	return nil
}

// unlessGone returns nil for the error of a container that has ended, and every other error.
func unlessGone(err error) error {
	if isGoneError(err) {
		return nil
	}
	return err
}

func (h *Host) refreshMemory(l *liveView, isRead bool) error {
	if !l.files.Parts().Memory {
		return nil
	}
	m, machine, err := h.measureMemory(l.group, isRead)
	if err != nil {
		return err
	}
	return l.files.WriteMemory(m, machine)
}

func (h *Host) refreshStat(name string, l *liveView) error {
	if !l.files.Parts().Stat {
		return nil
	}
	s, err := h.statSample(name, l.group)
	if err != nil {
		return err
	}
	return l.files.WriteStat(s)
}

// measureMemory reads the memory of a cgroup and of the machine. The files of a cgroup that is read again soon stay open.
func (h *Host) measureMemory(group string, isReadAgain bool) (m cgroup.Memory, machine view.MachineMemory, err error) {
	read := h.tree.ReadMemoryOnce
	if isReadAgain {
		read = h.tree.ReadMemory
	}
	if machine, err = view.ReadMachineMemory(); err == nil {
		m, err = read(group)
	}
	return m, machine, err
}

// statSample measures the CPU time of a container.
func (h *Host) statSample(name, group string) (s view.StatSample, err error) {
	g := h.tree.Group(name)
	if group != name {
		g = h.tree.EngineGroup(name, group)
	}
	if s.CPUs, _, err = g.Effective(); err != nil {
		return s, err
	}
	s.Time = state.SinceBoot()
	if s.User, s.System, err = h.tree.ReadUserSystem(group); err != nil {
		return s, err
	}
	s.PerCPU, err = g.PerCPU()
	return s, err
}

// refreshNow refreshes the live files of a container at once. If another process keeps them current, it writes the memory, whose
// limit can have changed, and the other process soon writes the CPU time.
func (op *operation) refreshNow(g *Grant) error {
	v := &op.views
	v.mu.Lock()
	defer v.mu.Unlock()
	if l := v.live[g.ID]; l != nil && l.files.IsCurrent() {
		return op.refreshLive(g.ID, l, false)
	}
	return errline.Join(op.refreshStatNow(g), op.RewriteMemory(g))
}

// refreshStatNow writes the CPUs of a container to its stat. If a process keeps the file current, refreshStatNow wakes this process.
func (op *operation) refreshStatNow(g *Grant) error {
	if !g.View.HasStat() {
		return nil
	}
	dir := op.store.ViewDir(g.ID)
	files, err := view.OpenLiveExisting(dir, view.LiveParts{Stat: true})
	if errors.Is(err, view.ErrRefreshed) {
		view.WakeRefresher(dir)
		return nil
	}
	if err != nil {
		return unlessGone(err)
	}
	defer files.Close()
	return files.Update(func() error { return unlessGone(op.refreshStat(g.ID, newLiveView(g, files))) })
}

// RewriteMemory writes the present memory of a container to its view, if the view has memory and the container runs. Callers use
// it after a change of the limit, without the lock. During a GiveBack, it does nothing.
func (h *Host) RewriteMemory(g *Grant) error {
	if !g.View.HasMemory() {
		return nil
	}
	err := view.UpdateMemory(h.store.ViewDir(g.ID), func() (m cgroup.Memory, machine view.MachineMemory, err error) {
		if h.isGivingBack() { // in the turn of this update: a GiveBack marks the state first, and then writes the machine's memory
			return m, machine, ErrGivingBack
		}
		return h.measureMemory(groupName(g), false)
	})
	if errors.Is(err, ErrGivingBack) {
		return nil
	}
	return unlessGone(err)
}

// showLive creates the live files of the container that this operation starts, and writes those of a container whose limits have
// changed. Other live files are the work of RefreshViews, which showLive wakes if a container has other CPUs (hasMoved); without
// that process, showLive writes them. A failure is an error only for a container that starts.
func (op *operation) showLive(g *Grant, hasMoved bool) error {
	if a := op.starting; a != nil && a.ID == g.ID && !op.isUndoing {
		return op.startLive(g, a.PID != 0)
	}
	if g.ID != op.rewritten && g.ID != op.resized {
		if hasMoved {
			op.reportLive(g, op.refreshStatNow(g))
		}
		return nil
	}
	if LiveParts(g) == (view.LiveParts{}) {
		return nil
	}
	op.reportLive(g, op.refreshNow(g))
	return nil
}

// reportLive records the error of a refresh, unless the container has ended.
func (op *operation) reportLive(g *Grant, err error) {
	if unlessGone(err) != nil {
		op.refreshFailed(g.ID, logName(g.ID, &g.Engine), err)
	}
}

// RefreshViews keeps the live files of views current until ctx is done: those of all containers with HoldViews, and else those of
// the programs that this process has started.
func (h *Host) RefreshViews(ctx context.Context) error {
	onError := func(name string, err error) { h.refreshFailed(name, h.views.logName(name), err) }
	options := view.RefreshOptions{Linger: view.DefaultLinger, OnError: onError}
	if !h.views.isAll { // there can be many such processes
		options.Spare = spareInotify
	}
	r, err := view.NewRefresher(options)
	if err != nil {
		return err
	}
	defer r.Close()
	h.views.setRefresher(r)
	defer h.views.setRefresher(nil)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.followLive(ctx)
	}()
	err = r.Run(ctx)
	cancel()
	<-ended
	return err
}

// spareInotify is the number of inotify instances of root that the processes of candor run leave to other programs, of 128 by default
// (fs.inotify.max_user_instances).
const spareInotify = 48

// logName returns the log attributes of a container.
func (v *openViews) logName(name string) slog.Attr {
	v.mu.Lock()
	defer v.mu.Unlock()
	if l := v.live[name]; l != nil {
		return l.logName
	}
	return LogName(name, "")
}

func (v *openViews) setRefresher(r *view.Refresher) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresher = r
	for _, l := range v.live {
		l.isWatched = false
	}
}

// A stateStamp changes when the state file is replaced, and when a GiveBack begins or is canceled. The comparison of the inode
// suffices, because the state file is never written in place.
type stateStamp struct {
	inode        uint64
	time         unix.Timespec
	isGivingBack bool
}

func (h *Host) stamp() stateStamp {
	var s unix.Stat_t
	if unix.Stat(h.store.File(), &s) != nil {
		s = unix.Stat_t{}
	}
	return stateStamp{s.Ino, s.Mtim, h.isGivingBack()}
}

// Pauses between two comparisons of the live files with the state. Without a change of the state, only the death of a process
// that refreshed a view makes a difference.
const (
	followPause    = time.Second
	maxFollowPause = 30 * time.Second
)

// followOwnPause is the time between two looks for the mark of a GiveBack, which waits longer.
const followOwnPause = 5 * time.Second

// followOwn keeps the live files of the programs that this process has started current until ctx is done. It closes the files when a
// GiveBack begins. It does not read the state, because there can be many such processes.
func (h *Host) followOwn(ctx context.Context) {
	for ctx.Err() == nil {
		if h.isGivingBack() {
			h.views.retainLive(func(string) bool { return false })
		}
		h.views.watchOwn(h)
		select {
		case <-ctx.Done():
		case <-time.After(followOwnPause):
		}
	}
}

// watchOwn adds the live files of the programs that this process has started to the refresher.
func (v *openViews) watchOwn(h *Host) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, l := range v.live {
		if !h.degraded.isDue(name, SettingLive, spec.View("")) {
			continue
		}
		if err := v.watchLive(h, name, l); unlessGone(err) != nil {
			h.refreshFailed(name, l.logName, err)
		}
	}
}

// followLive opens the live files of new containers, and closes those of containers that have ended, until ctx is done.
func (h *Host) followLive(ctx context.Context) {
	if !h.views.isAll {
		h.followOwn(ctx)
		return
	}
	var seen stateStamp
	var last time.Time
	for {
		now := h.stamp()
		if time.Since(last) >= maxFollowPause || now != seen {
			h.openLive(now.isGivingBack)
			seen, last = now, time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(followPause):
		}
	}
}

// openLive brings the open live files in line with the state, for a process that keeps the views of all containers open. While the
// containers are being given back, it closes all of them.
func (h *Host) openLive(isGivingBack bool) {
	if isGivingBack { // also with a state that cannot be read: the GiveBack waits for the files
		h.views.retainLive(func(string) bool { return false })
		return
	}
	saved, err := h.store.Load()
	if err != nil {
		return // a broken state; the next operation replaces it
	}
	grants := state.ByName(saved.Grants)
	h.views.retainLive(func(name string) bool {
		isNew := time.Since(h.views.live[name].since) < startTime // an operation can be about to save its grant
		return grants[name] != nil || isNew
	})
	for _, g := range saved.Grants {
		if LiveParts(g) == (view.LiveParts{}) || !h.degraded.isDue(g.ID, SettingLive, spec.View("")) {
			continue
		}
		if err := h.views.keepLive(h, g); err != nil && !isGoneError(err) {
			h.refreshFailed(g.ID, logName(g.ID, &g.Engine), err)
		}
	}
}

// unwatchedPause is the shortest time between two warnings that the kernel has no more inotify watches, which concerns many
// containers.
const unwatchedPause = time.Hour

// refreshFailed records that the live files of a container could not be refreshed. Without a watch, they are still refreshed
// every 30 seconds.
func (h *Host) refreshFailed(name string, logName slog.Attr, err error) {
	if errors.Is(err, view.ErrNotWatched) {
		if h.views.isUnwatchedDue() {
			h.log.Warn("the memory and the CPU time in views are up to 30 seconds old", logName, "error", err)
		}
		return
	}
	if h.degraded.add(name, SettingLive, spec.View(""), err) {
		h.log.Warn("cannot refresh the memory or the CPU time in a container's view", logName, "error", err)
	}
}

// isUnwatchedDue reports whether a warning about missing inotify watches is due.
func (v *openViews) isUnwatchedDue() bool {
	now, last := time.Now().Unix(), v.unwatched.Load()
	return now-last >= int64(unwatchedPause/time.Second) && v.unwatched.CompareAndSwap(last, now)
}

// RefreshOwn keeps the live files of a program that this process has started current, until stop is called.
func (h *Host) RefreshOwn(g *Grant) (stop func()) {
	if LiveParts(g) == (view.LiveParts{}) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := h.RefreshViews(ctx); err != nil {
			h.log.Warn("the program's memory in its view stays that of the start", logName(g.ID, &g.Engine), "error", err)
			h.views.retainLive(func(string) bool { return false }) // candor view refresh can take over
		}
	}()
	return func() { cancel(); <-ended }
}

// mountedView returns the view without the parts whose files the container does not have. A container that was started before its
// settings select such a part has no file for it.
func (h *Host) mountedView(name string, v spec.View) spec.View {
	has := view.ReadParts(h.store.ViewDir(name))
	if !has.Memory {
		v = v.WithoutMemory()
	}
	if !has.Stat {
		v = v.WithoutStat()
	}
	return v
}
