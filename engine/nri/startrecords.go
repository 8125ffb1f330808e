package nri

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/candor-project/candor/host"
)

// The plugin does not record the start of a container in the state at once, because the runtime waits for the plugin's answer.
// It records the start a short time later, or before a request that needs the record. If the plugin is killed before that, the
// next operation finds the running container, and the next Synchronize finds the first process of the container.

// recordDelay is the time between the plugin's answer and the record. It is longer than the rest of a container's start.
const recordDelay = 30 * time.Millisecond

// startRecords are the pending records of started containers, by the name of the container.
type startRecords struct {
	sync.Mutex
	waiting map[string]*startRecord
}

type startRecord struct {
	once    sync.Once
	timer   *time.Timer
	write   func()
	written chan struct{} // closed after the write
}

// recordStartLater records a started container later. An older pending record for the same name has no effect, because the grant then
// belongs to another container.
func (e *Engine) recordStartLater(a host.Allocation, pid int) {
	n := &startRecord{write: func() { e.recordStart(a, pid) }, written: make(chan struct{})}
	e.notes.Lock()
	defer e.notes.Unlock()
	if e.notes.waiting == nil {
		e.notes.waiting = map[string]*startRecord{}
	}
	e.notes.waiting[a.ID] = n
	e.later.Add(1)
	n.timer = time.AfterFunc(recordDelay, func() { e.finishRecord(a.ID, n) })
}

// recordStartNow records a started container at once, if its record is pending, and returns when it is written. An error reports that
// this takes longer than the caller can wait.
func (e *Engine) recordStartNow(ctx context.Context, name string) error {
	e.notes.Lock()
	n := e.notes.waiting[name]
	e.notes.Unlock()
	if n == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	go e.finishRecord(name, n)
	select {
	case <-n.written:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot record its start: another operation holds the lock (%w); try again", ctx.Err())
	}
}

// finishRecord writes a record. It writes each record only once, and returns after the write.
func (e *Engine) finishRecord(name string, n *startRecord) {
	n.once.Do(func() {
		defer e.later.Done()
		defer close(n.written)
		e.notes.Lock() // recordStartLater sets the timer under this lock
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

// recordAllStarts writes all pending records, before the plugin ends.
func (e *Engine) recordAllStarts() {
	e.notes.Lock()
	waiting := maps.Clone(e.notes.waiting)
	e.notes.Unlock()
	for name, n := range waiting {
		e.finishRecord(name, n)
	}
	e.later.Wait()
}

// recordStart records a started container that has its granted settings.
func (e *Engine) recordStart(a host.Allocation, pid int) {
	var err error
	for range 3 { // another process can hold the lock for long
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		err = e.host.RecordRunning(ctx, &a, pid)
		cancel()
		if err == nil {
			return
		}
	}
	e.log.Warn("cannot record that a container runs", "container", a.Engine.Name, "id", a.ID, "reason", err)
}
