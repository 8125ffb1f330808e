package host

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/view"
)

// Root in a container can take a lease on the files of its view (fcntl F_SETLEASE). While a process has a lease on a file, Candor cannot
// open this file for a rewrite without waiting. The kernel grants no lease while the file is open for writing. Processes that run for a
// long time, candor run and candor nri, therefore hold the files open.

// openViews holds the views that this process keeps open.
type openViews struct {
	isAll bool // hold the views of all containers open, not only those of the programs that this process starts

	mu      sync.Mutex
	files   map[string]*view.Files // by container
	waiting string                 // container whose view awaitLease waits for, or ""

	live      map[string]*liveView // by container
	unwatched atomic.Int64         // Unix time of the last warning about missing inotify watches
	refresher *view.Refresher      // nil: this process does not refresh live files
}

// write writes a container's view without waiting. The files stay open if keep or v.isAll is set.
func (v *openViews) write(s state.Store, g *Grant, keep bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f := v.files[g.ID]; f != nil && f.IsCurrent() {
		return f.Write(g.CPUs)
	}
	f, err := view.Open(s.ViewDir(g.ID))
	if err != nil {
		return err
	}
	err = f.Write(g.CPUs)
	if err == nil && (keep || v.isAll) {
		v.put(g.ID, f)
	} else {
		f.Close()
	}
	return err
}

func (v *openViews) put(name string, f *view.Files) {
	if old := v.files[name]; old != nil {
		old.Close()
	}
	if v.files == nil {
		v.files = map[string]*view.Files{}
	}
	v.files[name] = f
}

// keepOpen opens the view of a container that was started before this process. If a process in the container holds a
// lease, a goroutine waits until the kernel breaks the lease. At most one goroutine waits at a time.
func (v *openViews) keepOpen(s state.Store, name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.isAll || v.files[name] != nil {
		return
	}
	f, err := view.OpenExisting(s.ViewDir(name))
	if err == nil {
		v.put(name, f)
	} else if errors.Is(err, view.ErrLeased) && v.waiting == "" {
		v.waiting = name
		go v.awaitLease(s, name)
	}
}

func (v *openViews) awaitLease(s state.Store, name string) {
	f, err := view.OpenWaiting(s.ViewDir(name))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiting = ""
	switch {
	case err != nil:
	case v.files[name] == nil && f.IsCurrent():
		v.put(name, f)
	default: // the container already has new files
		f.Close()
	}
}

// renew creates new files for a container that has not started yet. A process of a former container with that name can
// hold a lease on the old files.
func (v *openViews) renew(s state.Store, g *Grant, keep bool) error {
	v.close(g.ID)
	if err := view.Remove(s.ViewDir(g.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return v.write(s, g, keep)
}

func (v *openViews) close(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f := v.files[name]; f != nil {
		f.Close()
		delete(v.files, name)
	}
	v.closeLive(name)
}

// retain closes the views of containers that have ended.
func (v *openViews) retain(isThere func(name string) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, f := range v.files {
		if !isThere(name) {
			f.Close()
			delete(v.files, name)
		}
	}
	v.retainLiveLocked(isThere)
}

// retainLive closes the live files of containers that have ended.
func (v *openViews) retainLive(isThere func(name string) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.retainLiveLocked(isThere)
}

func (v *openViews) retainLiveLocked(isThere func(name string) bool) {
	for name := range v.live {
		if !isThere(name) {
			v.closeLive(name)
		}
	}
}
