package nri

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/candor-project/candor/host"
)

// The state records that a container runs a while after its start, when no event waits for the plugin, or before a request
// that needs this fact. If the plugin is killed in between, the next operation finds the container running, and the next
// Synchronize finds its first process.

// noteAfter is that while: longer than it takes from the plugin's answer to the end of a start.
const noteAfter = 30 * time.Millisecond

// notes are the started containers that the state does not record yet, by their names.
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

// noteLater records a started container later. An older pending record for the same name then finds the grant of another
// container and leaves it as it is.
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

// noteNow records a started container at once, if its record is pending, and returns when it is written. An error reports that
// this takes longer than the caller can wait.
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
		return fmt.Errorf("cannot record its start: another operation holds the lock (%w); try again", ctx.Err())
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

// note records a started container that has its granted settings.
func (e *Engine) note(a host.Allocation, pid int) {
	var err error
	for range 3 { // another process can hold the lock for long
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		err = e.host.RecordRunning(ctx, &a, pid)
		cancel()
		if err == nil {
			return
		}
	}
	e.log.Warn("cannot record that a container runs", "container", a.Engine.Name, "reason", err)
}
