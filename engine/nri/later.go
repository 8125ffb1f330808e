package nri

import (
	"context"
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
	once  sync.Once
	timer *time.Timer
	write func()
}

// noteLater notes that a container runs, while nobody waits for it.
func (e *Engine) noteLater(a host.Allocation, pid int) {
	e.noteNow(a.ID) // of a container that had the name before
	n := &note{write: func() { e.note(a, pid) }}
	e.notes.Lock()
	defer e.notes.Unlock()
	if e.notes.waiting == nil {
		e.notes.waiting = map[string]*note{}
	}
	e.notes.waiting[a.ID] = n
	e.later.Add(1)
	n.timer = time.AfterFunc(noteAfter, func() { e.finishNote(a.ID, n) })
}

// noteNow notes that a container runs, if that was left for later, and returns when it is noted.
func (e *Engine) noteNow(name string) {
	e.notes.Lock()
	n := e.notes.waiting[name]
	e.notes.Unlock()
	if n != nil {
		e.finishNote(name, n)
	}
}

// finishNote writes a note once, and returns when it is written.
func (e *Engine) finishNote(name string, n *note) {
	n.once.Do(func() {
		defer e.later.Done()
		n.timer.Stop()
		n.write()
		e.notes.Lock()
		defer e.notes.Unlock()
		delete(e.notes.waiting, name)
	})
}

// noteAll writes all notes that wait: the plugin ends.
func (e *Engine) noteAll() {
	e.notes.Lock()
	var names []string
	for name := range e.notes.waiting {
		names = append(names, name)
	}
	e.notes.Unlock()
	for _, name := range names {
		e.noteNow(name)
	}
	e.later.Wait()
}

// note notes that a container runs that has what it is to have.
func (e *Engine) note(a host.Allocation, pid int) {
	var err error
	for range 3 { // who has the lock may have it for long
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		err = e.host.Note(ctx, &a, pid)
		cancel()
		if err == nil {
			return
		}
	}
	e.log.Warn("runs as planned, but could not be noted as running", "container", a.Engine.Name, "reason", err)
}
