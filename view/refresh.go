package view

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Default periods of a Refresher.
const (
	DefaultActive = time.Second
	DefaultIdle   = 30 * time.Second
	DefaultLinger = 10 * time.Second
)

// slowFactor is the lowest ratio of the pause after a refresh to the CPU time of the refresh. A container with thousands of nested
// cgroups makes its refresh slow, because the kernel sums their counters. The pause is Idle at most.
const slowFactor = 50

// ErrNotWatched means that the kernel has no more inotify watches or instances for this user. The view is refreshed once per Idle,
// and the Refresher tries again to watch the files.
var ErrNotWatched = errors.New("the reads of a view's files are not noticed")

// RefreshOptions configure a Refresher.
type RefreshOptions struct {
	// Active is the time between two refreshes of a file that programs read; 0: DefaultActive.
	Active time.Duration
	// Linger is the time after a read in which the refreshes go on, for programs that read less often than once per Active.
	Linger time.Duration
	// Idle is the maximum age of every other file, and thus of the first read after a pause; 0: DefaultIdle. With a negative Idle, only
	// reads lead to a refresh, and the first read after a pause can have any age.
	Idle time.Duration
	// OnError, if non-nil, is called with the error of a refresh. The Refresher continues, and tries again when the view is due the next
	// time. OnError can call the methods of the Refresher, but not Close.
	OnError func(name string, err error)
	// Spare is the number of inotify instances that the Refresher leaves to other programs of its user. With fewer instances at the
	// start, it works without one until its end.
	Spare int

	withoutPause bool // for tests: the CPU time of a refresh does not matter
}

// A Refresher rewrites the files of views while programs read them. It uses inotify, which reports the opens and reads of a file also
// through a read-only bind mount in another mount namespace.
//
// A reader cannot make a Refresher busy. Between two refreshes of a view, at most two events of each of its files wake the
// Refresher: the read, and the end of the watch. A watch ends with its first event (IN_ONESHOT), and the next refresh restores
// the watch. The pause after a slow refresh is longer. Without readers and with a negative Idle, a Refresher does not wake up at
// all.
//
// A Refresher uses one inotify instance of its user (fs.inotify.max_user_instances). Without one, it refreshes all views once per
// Idle, and tries each time to get one.
//
// The methods are safe for concurrent use.
type Refresher struct {
	active, idle, linger time.Duration
	slowFactor, spare    int
	onError              func(name string, err error)

	mutex   sync.Mutex // protects the fields below, and the fields of the views except running
	events  *os.File   // inotify instance, or an eventfd without events
	blind   error      // why there is no inotify instance; nil: there is one
	views   map[string]*refreshedView
	queue   refreshQueue             // views with a due time
	watches map[int32]*refreshedView // by watch descriptor
	nextAll time.Time                // time of the next refresh of all views; zero: none
	wakeups int                      // for tests
}

// A refreshedView is a view whose files a Refresher rewrites.
type refreshedView struct {
	name    string
	files   []*os.File
	refresh func(isRead bool) error
	running sync.Mutex // held during a refresh
	next    time.Time  // earliest time of the next refresh because of a read
	due     time.Time  // next refresh because of a read; zero: none, and the view is not in the queue
	index   int        // in the queue
	until   time.Time  // end of the refreshes that go on after the last read

	isUnwatched bool // a file is not watched
	isRead      bool // the refresh that is due follows a read
}

// A refreshQueue is a heap of views, with the earliest due time first. So a wake of the Refresher does not depend on the number
// of views.
type refreshQueue []*refreshedView

func (q refreshQueue) Len() int           { return len(q) }
func (q refreshQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

func (q refreshQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *refreshQueue) Push(v any) {
	added := v.(*refreshedView)
	added.index = len(*q)
	*q = append(*q, added)
}

// Pop implements heap.Interface.
func (q *refreshQueue) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return v
}

// schedule sets the due time of a view that is in r.views and has none.
func (r *Refresher) schedule(v *refreshedView, due time.Time) {
	v.due = due
	heap.Push(&r.queue, v)
}

// unschedule removes the due time of a view, if it has one.
func (r *Refresher) unschedule(v *refreshedView) {
	if !v.due.IsZero() {
		heap.Remove(&r.queue, v.index)
		v.due = time.Time{}
	}
}

// NewRefresher returns a Refresher without views. Run makes it work.
func NewRefresher(o RefreshOptions) (*Refresher, error) {
	r := &Refresher{
		active: DefaultActive, idle: DefaultIdle, linger: o.Linger, slowFactor: slowFactor, spare: max(o.Spare, 0), onError: o.OnError,
		views: map[string]*refreshedView{}, watches: map[int32]*refreshedView{},
	}
	if r.events, r.blind = newInotify(r.spare); r.blind != nil {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) // Run waits for its deadlines
		if err != nil {
			return nil, fmt.Errorf("cannot wait for the next refresh of views (eventfd): %w", err)
		}
		r.events = os.NewFile(uintptr(fd), "eventfd")
	}
	if o.withoutPause {
		r.slowFactor = 0
	}
	if o.Active > 0 {
		r.active = o.Active
	}
	if o.Idle != 0 {
		r.idle = o.Idle
	}
	return r, nil
}

// Tests replace these system calls.
var (
	inotifyInit     = unix.InotifyInit1
	inotifyAddWatch = unix.InotifyAddWatch
)

// newInotify returns a new inotify instance if the kernel has spare further ones.
func newInotify(spare int) (*os.File, error) {
	fds := make([]int, 0, 1+spare)
	for range 1 + spare {
		fd, err := inotifyInit(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			closeAll(fds)
			return nil, fmt.Errorf("%w: inotify: %w; see fs.inotify.max_user_instances", ErrNotWatched, err)
		}
		fds = append(fds, fd)
	}
	closeAll(fds[1:])
	return os.NewFile(uintptr(fds[0]), "inotify"), nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// retryInotify replaces the eventfd of a Refresher that has no inotify instance, if the kernel now has one. Run calls it between two
// reads of events.
func (r *Refresher) retryInotify() {
	if r.blind == nil || r.spare > 0 { // many processes with Spare must not take the last instances again and again
		return
	}
	events, err := newInotify(0)
	if r.blind = err; err == nil {
		r.events.Close()
		r.events = events
	}
}

// Close closes the inotify instance, after which Run returns an error. The files stay as they are.
func (r *Refresher) Close() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.events.Close()
}

// Add adds a view, or replaces the view of the same name. refresh rewrites the files of the view, and must not call methods of
// the Refresher. isRead reports that a program has read a file shortly before; otherwise the files have the age Idle. The files
// must stay open until Remove returns, and must not be files of another view. Add does not refresh the view, because the caller has
// just written it. With the error ErrNotWatched, Add has added the view. The caller adds the view of a container after the runtime
// has set the limits: a cgroup without its limit would show the memory of the machine.
func (r *Refresher) Add(name string, files []*os.File, refresh func(isRead bool) error) error {
	replaced, err := r.add(&refreshedView{name: name, files: files, refresh: refresh})
	replaced.wait()
	return err
}

func (r *Refresher) add(v *refreshedView) (replaced *refreshedView, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	replaced = r.remove(v.name)
	now := time.Now()
	v.next = now.Add(r.active)
	r.views[v.name] = v
	if err = r.watch(v); err != nil && !errors.Is(err, ErrNotWatched) {
		r.remove(v.name)
		return replaced, err
	}
	if r.nextAll.IsZero() && r.idle > 0 {
		r.nextAll = now.Add(r.idle)
	}
	if failed := r.wake(); failed != nil {
		err = failed
	}
	return replaced, err
}

// Remove removes a view. After Remove returns, the Refresher does not use its files. It does nothing for an unknown name.
func (r *Refresher) Remove(name string) {
	r.mutex.Lock()
	v := r.remove(name)
	r.mutex.Unlock()
	v.wait()
}

// wait waits for the end of a refresh. v can be nil.
func (v *refreshedView) wait() {
	if v != nil {
		v.running.Lock()
		defer v.running.Unlock()
	}
}

// remove removes a view and returns it, or nil for an unknown name. A refresh of the view can still run.
func (r *Refresher) remove(name string) *refreshedView {
	v := r.views[name]
	if v == nil {
		return nil
	}
	delete(r.views, name)
	r.unschedule(v)
	for wd, watched := range r.watches {
		if watched == v {
			delete(r.watches, wd)
			_ = r.control(func(fd int) error { // fails if the watch has ended
				_, err := unix.InotifyRmWatch(fd, uint32(wd))
				return err
			})
		}
	}
	return v
}

// watch makes the kernel report the next open or read of each file of a view.
func (r *Refresher) watch(v *refreshedView) error {
	v.isUnwatched = true
	if r.blind != nil {
		return r.blind
	}
	for _, file := range v.files {
		// By descriptor: the file can have been removed while a container still has it mounted.
		path := "/proc/self/fd/" + strconv.Itoa(int(file.Fd()))
		var wd int
		err := r.control(func(fd int) (err error) {
			wd, err = inotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_ACCESS|unix.IN_ONESHOT)
			return err
		})
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) {
			return fmt.Errorf("%w: cannot watch %s (inotify): %w; see fs.inotify.max_user_watches", ErrNotWatched, file.Name(), err)
		}
		if err != nil {
			return fmt.Errorf("cannot watch %s (inotify): %w", file.Name(), err)
		}
		r.watches[int32(wd)] = v
	}
	v.isUnwatched = false
	return nil
}

// control calls do with the descriptor of the inotify instance.
func (r *Refresher) control(do func(fd int) error) error {
	conn, err := r.events.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// wake ends the present wait of Run, which then takes the new state into account. The caller must hold the mutex.
func (r *Refresher) wake() error { return r.events.SetReadDeadline(time.Unix(1, 0)) }

// Run refreshes the views until ctx is done, which is no error. Only one call may run at a time.
func (r *Refresher) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		_ = r.wake()
	})()
	const maxEvents = 256
	buffer := make([]byte, maxEvents*unix.SizeofInotifyEvent)
	for {
		events, err := r.setDeadline()
		if err != nil {
			return fmt.Errorf("inotify: %w", err)
		}
		if ctx.Err() != nil { // after setDeadline, which can have replaced the deadline of wake
			return nil
		}
		n, err := events.Read(buffer)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("inotify: %w", err)
		}
		r.mutex.Lock()
		r.wakeups++
		r.handle(buffer[:n], time.Now())
		due, failed := r.takeDue(time.Now())
		r.mutex.Unlock()
		for v, err := range failed {
			r.report(v, err)
		}
		for _, v := range due {
			r.refreshView(v)
		}
	}
}

// setDeadline makes the next read of events end when a view is due.
func (r *Refresher) setDeadline() (events *os.File, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	next := r.nextAll
	if len(r.queue) > 0 && (next.IsZero() || r.queue[0].due.Before(next)) {
		next = r.queue[0].due
	}
	return r.events, r.events.SetReadDeadline(next)
}

// handle schedules a refresh of each view whose file an inotify event reports.
func (r *Refresher) handle(events []byte, now time.Time) {
	for len(events) >= unix.SizeofInotifyEvent {
		wd, mask := int32(binary.NativeEndian.Uint32(events)), binary.NativeEndian.Uint32(events[4:])
		nameLength := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(unix.SizeofInotifyEvent+nameLength, len(events)):]
		if mask&unix.IN_Q_OVERFLOW != 0 { // the kernel has dropped events, and ended their watches
			clear(r.watches)
			for _, v := range r.views {
				r.unschedule(v)
				r.schedule(v, now)
			}
			continue
		}
		// The watch has ended: an event ends it (IN_ONESHOT), and the kernel then reports IN_IGNORED. If the Refresher restored
		// the watch before the kernel ended it, IN_IGNORED is the only report of the end. In both cases, the refresh restores the
		// watch.
		v := r.watches[wd]
		if v == nil {
			continue
		}
		delete(r.watches, wd)
		v.until = now.Add(r.linger)
		if v.due.IsZero() {
			r.schedule(v, later(now, v.next))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// takeDue returns the views that are due. It restores their watches before their refresh, so that no read after the refresh is
// missed. failed has the views that cannot be watched.
func (r *Refresher) takeDue(now time.Time) (due []*refreshedView, failed map[*refreshedView]error) {
	failed = map[*refreshedView]error{}
	take := func(v *refreshedView, isRead bool) {
		v.isRead = isRead
		if err := r.watch(v); err != nil {
			failed[v] = err
		}
		due = append(due, v)
	}
	for len(r.queue) > 0 && !now.Before(r.queue[0].due) {
		v := r.queue[0]
		r.unschedule(v)
		take(v, true)
	}
	if r.nextAll.IsZero() || now.Before(r.nextAll) {
		return due, failed
	}
	r.retryInotify()
	r.nextAll = time.Time{}
	if len(r.views) > 0 {
		r.nextAll = now.Add(r.idle)
	}
	for _, v := range r.views {
		switch {
		case slices.Contains(due, v):
		case v.isUnwatched:
			take(v, false)
		default:
			v.isRead = false
			due = append(due, v)
		}
	}
	return due, failed
}

// refreshView refreshes a view, unless it was removed meanwhile.
func (r *Refresher) refreshView(v *refreshedView) {
	v.running.Lock()
	r.mutex.Lock()
	isThere, isRead := r.views[v.name] == v, v.isRead
	r.mutex.Unlock()
	if !isThere {
		v.running.Unlock()
		return
	}
	used, err := threadTime(func() error { return v.refresh(isRead) })
	end := time.Now()
	v.running.Unlock()
	r.mutex.Lock()
	v.next = end.Add(r.pause(used))
	if v.due.IsZero() && v.next.Before(v.until) && r.views[v.name] == v {
		r.schedule(v, v.next)
	}
	r.mutex.Unlock()
	r.report(v, err)
}

// pause returns the time until the next refresh of a view whose last refresh used CPU time.
func (r *Refresher) pause(used time.Duration) time.Duration {
	longer := time.Duration(r.slowFactor) * used
	if r.idle > 0 {
		longer = min(longer, r.idle)
	}
	return max(r.active, longer)
}

// threadTime calls do and returns its CPU time, without the time in which it waits, for example for a lock.
func threadTime(do func() error) (used time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := func() time.Duration {
		var t unix.Timespec
		if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
			return 0
		}
		return time.Duration(t.Nano())
	}
	start := now()
	err = do()
	return now() - start, err
}

// report passes an error, if any, to OnError.
func (r *Refresher) report(v *refreshedView, err error) {
	if err != nil && r.onError != nil {
		r.onError(v.name, err)
	}
}
