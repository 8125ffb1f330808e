package events

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/metrics"
)

const (
	firstWait = time.Second // time between the first two attempts after an error
	maxWait   = time.Minute // maximum time between two attempts after errors
)

// A Sink records Events. *Recorder implements it.
type Sink interface {
	// Pod records an Event about a pod of this node. note is a sentence for users. It never blocks.
	Pod(p Pod, reason Reason, note string)
	// Node records an Event about this node. note is a sentence for users. It never blocks.
	Node(reason Reason, note string)
}

// A Listener counts Events, for metrics. Its methods must not block.
type Listener interface {
	// EventWritten counts a write of an Event that the API server accepted.
	EventWritten()
	// EventsDropped counts n occurrences that are in no Event.
	EventsDropped(reason metrics.Reason, n int)
}

// An api is the interface to the API server.
type api interface {
	// create creates the Event of a draft, and returns its name.
	create(ctx context.Context, d *draft) (name string, err error)
	// update writes the number of occurrences to the Event of a draft.
	update(ctx context.Context, d *draft) error
}

// A Recorder writes the Events of a node (see the package comment). Its methods are safe for concurrent use, and do nothing if
// the Recorder is nil.
type Recorder struct {
	api      api
	log      *slog.Logger
	listener Listener
	changed  chan struct{}

	mu      sync.Mutex
	backlog backlog

	loggedReason metrics.Reason // logged reason of the last failure; "" after a success. Used only by Run.
}

// New returns a recorder of the Events of a node. It does not call the API server.
func New(c *apiserver.Client, node string, log *slog.Logger, l Listener) *Recorder {
	return newRecorder(&client{Client: c, node: node}, log, l)
}

func newRecorder(a api, log *slog.Logger, l Listener) *Recorder {
	return &Recorder{api: a, log: log, listener: l, changed: make(chan struct{}, 1), backlog: newBacklog(time.Now())}
}

// Pod records an Event about a pod of this node. note is a sentence for users. It never blocks. A pod without a UID, or with a
// name that no pod of Kubernetes has, counts as dropped.
func (r *Recorder) Pod(p Pod, reason Reason, note string) {
	switch {
	case r == nil:
	case !p.isValid():
		r.listener.EventsDropped(metrics.Invalid, 1)
	default:
		r.record(key{p, reason}, note)
	}
}

// Node records an Event about this node. note is a sentence for users. It never blocks.
func (r *Recorder) Node(reason Reason, note string) {
	if r != nil {
		r.record(key{reason: reason}, note)
	}
}

func (r *Recorder) record(k key, note string) {
	note = clean(note)
	r.mu.Lock()
	dropped := r.backlog.add(k, note, time.Now())
	r.mu.Unlock()
	r.countDropped(metrics.RateLimit, dropped)
	select {
	case r.changed <- struct{}{}:
	default: // a signal is already pending
	}
}

func (r *Recorder) countDropped(reason metrics.Reason, n int) {
	if n > 0 {
		r.listener.EventsDropped(reason, n)
	}
}

// Run writes Events until ctx is done.
func (r *Recorder) Run(ctx context.Context) {
	if r == nil {
		return
	}
	for retry := firstWait; ctx.Err() == nil; {
		d, idle := r.next()
		if d == nil {
			pause(ctx, idle, r.changed)
			continue
		}
		if err := r.write(ctx, d); err != nil {
			pause(ctx, retry, nil)
			retry = min(2*retry, maxWait)
			continue
		}
		retry = firstWait
	}
}

// next returns the next write, or nil and the time until there can be one.
func (r *Recorder) next() (d *draft, idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.countDropped(metrics.Unreachable, r.backlog.dropOutdated(now))
	s, idle := r.backlog.next(now)
	if s == nil {
		return nil, idle
	}
	return r.backlog.draft(s), 0
}

// write writes an Event. An error means that the same Event can be written later. An Event that the API server refuses is
// dropped.
func (r *Recorder) write(ctx context.Context, d *draft) (err error) {
	name := d.name
	if name == "" {
		name, err = r.api.create(ctx, d)
	} else {
		err = r.api.update(ctx, d)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch reason := reasonOf(err); {
	case err == nil:
		r.backlog.done(d, name, time.Now())
		r.listener.EventWritten()
		r.logRecovery()
		return nil
	case d.name != "" && apierrors.IsNotFound(err): // the API server retains an Event for a limited time
		d.missing()
		return nil
	case reason == metrics.Unreachable:
		r.logFailure(reason, err)
		return err
	default:
		r.logFailure(reason, err)
		r.countDropped(reason, r.backlog.drop(d.series))
		return nil
	}
}

// reasonOf returns the reason of a failure, for metrics. With the reason Unreachable, a later attempt can succeed.
func reasonOf(err error) metrics.Reason {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return metrics.Forbidden
	case apierrors.IsInvalid(err), apierrors.IsNotFound(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err),
		apierrors.IsUnsupportedMediaType(err), apierrors.IsRequestEntityTooLargeError(err):
		return metrics.Invalid
	default:
		return metrics.Unreachable
	}
}

// logFailure logs a failure if its reason differs from that of the last failure.
func (r *Recorder) logFailure(reason metrics.Reason, err error) {
	if reason != r.loggedReason {
		r.log.Warn("cannot write an Event; the node continues", "reason", err)
	}
	r.loggedReason = reason
}

func (r *Recorder) logRecovery() {
	if r.loggedReason != "" {
		r.log.Info("Events are written again")
	}
	r.loggedReason = ""
}

// pause waits until a time has passed, changed receives a signal, or ctx is done.
func pause(ctx context.Context, duration time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-changed:
	}
}

// A Reminder limits the Events about a fault that lasts. The zero value is ready for use.
type Reminder struct {
	note string
	at   time.Time
}

// remindInterval is the time after which an Event about a lasting fault is repeated, so that it does not expire on the API
// server.
const remindInterval = 30 * time.Minute

// IsDue reports whether to record an Event with this note now. It returns true if the note differs from the last one, and every
// 30 minutes. If the note is empty, the fault has ended: IsDue returns false, and true for the next fault.
func (r *Reminder) IsDue(note string) bool {
	now := time.Now()
	if note == "" || note == r.note && now.Sub(r.at) < remindInterval {
		if note == "" {
			*r = Reminder{}
		}
		return false
	}
	*r = Reminder{note, now}
	return true
}
