package nri

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/candor-project/candor/host"
)

// What nobody waits for is done when the runtime has done what somebody waits for. That a container runs which has all that it
// was granted is noted in the state a while after its start, or when somebody asks about it before. If the plugin is killed
// in between, the next operation finds the container running, and the next Synchronize its first process.

// noteAfter is that while: longer than it takes from the plugin's answer to the end of a start.
const noteAfter = 30 * time.Millisecond

// notes are the containers of which the state does not say yet that they run, by their names.
type notes struct {
	sync.Mutex
	waiting map[string]*note
}

type note struct {
	once    sync.Once
	timer   *time.Timer
	write   func()
	written chan struct{} // closed then
}

// noteLater notes that a container runs, while nobody waits for it. A note that still waits for one that had the name before will find
// another's grant there, and leave it as it is.
func (e *Engine) noteLater(a host.Allocation, pid int) {
	n := &note{write: func() { e.note(a, pid) }, written: make(chan struct{})}
	e.notes.Lock()
	defer e.notes.Unlock()
	if e.notes.waiting == nil {
		e.notes.waiting = map[string]*note{}
	}
	e.notes.waiting[a.ID] = n
	e.later.Add(1)
	n.timer = time.AfterFunc(noteAfter, func() { e.finishNote(a.ID, n) })
}

// noteNow notes that a container runs, if that was left for later, and returns when it is noted. Somebody waits for that: an
// error says that it takes longer than they may wait.
func (e *Engine) noteNow(ctx context.Context, name string) error {
	e.notes.Lock()
	n := e.notes.waiting[name]
	e.notes.Unlock()
	if n == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	go e.finishNote(name, n)
	select {
	case <-n.written:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("its start is not noted yet, somebody has the state: try again: %w", ctx.Err())
	}
}

// finishNote writes a note once, and returns when it is written.
func (e *Engine) finishNote(name string, n *note) {
	n.once.Do(func() {
		defer e.later.Done()
		defer close(n.written)
		e.notes.Lock() // the timer may be early, or we late: it is known by now
		n.timer.Stop()
		e.notes.Unlock()
		n.write()
		e.notes.Lock()
		defer e.notes.Unlock()
		if e.notes.waiting[name] == n {
			delete(e.notes.waiting, name)
		}
	})
}

// noteAll writes all notes that wait: the plugin ends.
func (e *Engine) noteAll() {
	e.notes.Lock()
	waiting := maps.Clone(e.notes.waiting)
	e.notes.Unlock()
	for name, n := range waiting {
		e.finishNote(name, n)
	}
	e.later.Wait()
}

// note notes that a container runs that has what it is to have.
func (e *Engine) note(a host.Allocation, pid int) {
	var err error
	for range 3 { // who has the lock may have it for long
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		err = e.host.RecordRunning(ctx, &a, pid)
		cancel()
		if err == nil {
			return
		}
	}
	e.log.Warn("runs as planned, but could not be noted as running", "container", a.Engine.Name, "reason", err)
}
