package view

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Default periods of a Refresher.
const (
	DefaultActive = time.Second
	DefaultIdle   = 30 * time.Second
)

// RefreshOptions configure a Refresher.
type RefreshOptions struct {
	// Active is the maximum age of a file while programs read it at least once per period; 0: DefaultActive.
	Active time.Duration
	// Idle is the maximum age of every other file, and thus of the first read after a pause; 0: DefaultIdle. With a negative Idle, only
	// reads lead to a refresh, and the first read after a pause can have any age.
	Idle time.Duration
	// OnError, if non-nil, is called with the error of a refresh. The Refresher continues, and tries again when the view is due the next
	// time.
	OnError func(name string, err error)
}

// A Refresher rewrites the files of views while programs read them. It uses inotify, which reports the opens and reads of a file also
// through a read-only bind mount in another mount namespace.
//
// A reader cannot make a Refresher busy. Between two refreshes of a view, at most one event for each of its files wakes the Refresher: a
// watch ends with its first event (IN_ONESHOT), and the next refresh restores the watch. Without readers and with a negative Idle, a
// Refresher does not wake up at all.
//
// The methods are safe for concurrent use.
type Refresher struct {
	active, idle time.Duration
	onError      func(name string, err error)
	events       *os.File // inotify instance

	mutex   sync.Mutex // also held while a view is refreshed, so that Remove waits for the refresh
	views   map[string]*refreshedView
	watches map[int32]*refreshedView // by watch descriptor
	nextAll time.Time                // time of the next refresh of all views; zero: none
	wakeups int                      // for tests
}

// A refreshedView is a view whose files a Refresher rewrites.
type refreshedView struct {
	name    string
	files   []*os.File
	refresh func() error
	last    time.Time // last refresh
	due     time.Time // next refresh because of a read; zero: none
}

// NewRefresher returns a Refresher without views. Run makes it work.
func NewRefresher(o RefreshOptions) (*Refresher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the files of views (inotify): %w; see fs.inotify.max_user_instances", err)
	}
	r := &Refresher{
		active: DefaultActive, idle: DefaultIdle, onError: o.OnError,
		events: os.NewFile(uintptr(fd), "inotify"), views: map[string]*refreshedView{}, watches: map[int32]*refreshedView{},
	}
	if o.Active > 0 {
		r.active = o.Active
	}
	if o.Idle != 0 {
		r.idle = o.Idle
	}
	return r, nil
}

// Close closes the inotify instance, after which Run returns an error. The files stay as they are.
func (r *Refresher) Close() { r.events.Close() }

// Add adds a view, or replaces the view of the same name. refresh rewrites the files of the view, and must not call methods of the
// Refresher. The files must stay open until Remove returns, and must not be files of another view. Add does not refresh the view, because
// the caller has just written it.
func (r *Refresher) Add(name string, files []*os.File, refresh func() error) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.remove(name)
	now := time.Now()
	v := &refreshedView{name: name, files: files, refresh: refresh, last: now}
	r.views[name] = v
	if err := r.watch(v); err != nil {
		r.remove(name)
		return err
	}
	if r.nextAll.IsZero() && r.idle > 0 {
		r.nextAll = now.Add(r.idle)
	}
	return r.wake()
}

// Remove removes a view. After Remove returns, the Refresher does not use its files. It does nothing for an unknown name.
func (r *Refresher) Remove(name string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.remove(name)
}

func (r *Refresher) remove(name string) {
	v := r.views[name]
	delete(r.views, name)
	for wd, watched := range r.watches {
		if watched == v {
			delete(r.watches, wd)
			_ = r.control(func(fd int) error { // fails if the watch has ended
				_, err := unix.InotifyRmWatch(fd, uint32(wd))
				return err
			})
		}
	}
}

// watch makes the kernel report the next open or read of each file of a view.
func (r *Refresher) watch(v *refreshedView) error {
	for _, file := range v.files {
		// By descriptor: the file can have been removed while a container still has it mounted.
		path := "/proc/self/fd/" + strconv.Itoa(int(file.Fd()))
		var wd int
		err := r.control(func(fd int) (err error) {
			wd, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_ACCESS|unix.IN_ONESHOT)
			return err
		})
		if err != nil {
			return fmt.Errorf("cannot watch %s (inotify): %w; see fs.inotify.max_user_watches", file.Name(), err)
		}
		r.watches[int32(wd)] = v
	}
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

// wake ends the present wait of Run, which then takes the new state into account.
func (r *Refresher) wake() error { return r.events.SetReadDeadline(time.Unix(1, 0)) }

// Run refreshes the views until ctx is done, which is no error. Only one call may run at a time.
func (r *Refresher) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = r.wake() })()
	const maxEvents = 256
	buffer := make([]byte, maxEvents*unix.SizeofInotifyEvent)
	for {
		if err := r.setDeadline(); err != nil {
			return fmt.Errorf("inotify: %w", err)
		}
		if ctx.Err() != nil { // after setDeadline, which can have replaced the deadline of wake
			return nil
		}
		n, err := r.events.Read(buffer)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("inotify: %w", err)
		}
		r.mutex.Lock()
		r.wakeups++
		r.handle(buffer[:n], time.Now())
		r.refreshDue(time.Now())
		r.mutex.Unlock()
	}
}

// setDeadline makes the next read of events end when a view is due.
func (r *Refresher) setDeadline() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	next := r.nextAll
	for _, v := range r.views {
		if !v.due.IsZero() && (next.IsZero() || v.due.Before(next)) {
			next = v.due
		}
	}
	return r.events.SetReadDeadline(next)
}

// handle schedules a refresh of each view whose file an inotify event reports.
func (r *Refresher) handle(events []byte, now time.Time) {
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events))
		nameLength := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(unix.SizeofInotifyEvent+nameLength, len(events)):]
		// The watch has ended: an event ends it (IN_ONESHOT), and the kernel then reports IN_IGNORED. If the Refresher restored the watch
		// before the kernel ended it, IN_IGNORED is the only report of the end. In both cases, the refresh restores the watch.
		v := r.watches[wd]
		if v == nil {
			continue
		}
		delete(r.watches, wd)
		if v.due.IsZero() {
			if v.due = v.last.Add(r.active); v.due.Before(now) {
				v.due = now
			}
		}
	}
}

// refreshDue refreshes the views that are due.
func (r *Refresher) refreshDue(now time.Time) {
	isAll := !r.nextAll.IsZero() && !now.Before(r.nextAll)
	if isAll {
		r.nextAll = time.Time{}
		if len(r.views) > 0 {
			r.nextAll = now.Add(r.idle)
		}
	}
	for _, v := range r.views {
		isDue := !v.due.IsZero() && !now.Before(v.due)
		if !isDue && !isAll {
			continue
		}
		var err error
		if isDue {
			v.due = time.Time{}
			if err = r.watch(v); err != nil { // before the refresh, so that no read after the refresh is missed
				v.due = now.Add(DefaultIdle)
			}
		}
		if failed := v.refresh(); err == nil {
			err = failed
		}
		v.last = time.Now()
		if err != nil && r.onError != nil {
			r.onError(v.name, err)
		}
	}
}
