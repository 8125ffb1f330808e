package host

import (
	"sync"

	"github.com/candor-project/candor/view"
)

// viewHolds hold the files of views open for a GiveBack, whose attempts do not wait for leases. Otherwise root in a container could take a
// new lease on a file between two attempts, and so prevent the GiveBack forever. The zero value holds nothing.
type viewHolds struct {
	mutex    sync.Mutex
	isClosed bool
	views    map[string]func() // by directory: the release of the files; nil: waits for the kernel to break leases
}

// maxViewHolds bounds the views whose leases a GiveBack breaks at the same time: each takes up to 5 threads.
const maxViewHolds = 200

// start opens the files of the view in dir in the background, unless they are already being opened.
func (h *viewHolds) start(dir string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	release, isThere := h.views[dir]
	if isThere && release == nil || h.isClosed || h.waiting() >= maxViewHolds {
		return
	}
	if isThere { // other files have replaced those that are open
		release()
	}
	if h.views == nil {
		h.views = map[string]func(){}
	}
	h.views[dir] = nil
	go h.hold(dir)
}

// waiting returns the number of views whose files are being opened.
func (h *viewHolds) waiting() (n int) {
	for _, release := range h.views {
		if release == nil {
			n++
		}
	}
	return n
}

func (h *viewHolds) hold(dir string) {
	release, err := view.HoldWaiting(dir)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	switch {
	case err != nil: // the next attempt reports the error
		delete(h.views, dir)
	case h.isClosed:
		release()
	default:
		h.views[dir] = release
	}
}

// close releases all files.
func (h *viewHolds) close() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.isClosed = true
	for _, release := range h.views {
		if release != nil {
			release()
		}
	}
	clear(h.views)
}
