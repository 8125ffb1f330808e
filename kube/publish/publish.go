package publish

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/events"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/metrics"
)

const (
	interval      = time.Second      // minimum time between two writes
	maxWait       = time.Minute      // maximum time between two attempts after errors
	checkInterval = 10 * time.Second // time between two checks for changes by other programs, such as candor run
	readInterval  = 5 * time.Minute  // time between two reads of the NodeCPU, which other programs can delete
)

// An api is the interface to the API server.
type api interface {
	// get returns the NodeCPU of the node. It creates the NodeCPU if it does not exist. If the NodeCPU belongs to a former Node with the
	// same name, get changes its owner.
	get(context.Context) (*v1alpha1.NodeCPU, error)
	// write replaces the status of the NodeCPU. It fails with a conflict if the NodeCPU has changed since it was read.
	write(context.Context, *v1alpha1.NodeCPU) (*v1alpha1.NodeCPU, error)
	// allocatable returns the allocatable CPU that the kubelet reports, or 0 before its first report.
	allocatable(context.Context) (hybrid.Milli, error)
}

// A Listener receives the results of publishing, for metrics.
type Listener interface {
	Reported()
	UpToDate()
	Unreported(metrics.Reason)
	events.Listener
}

// A Publisher publishes the reports of a node (see the package comment).
type Publisher struct {
	api      api
	events   recorder
	log      *slog.Logger
	listener Listener

	changed          chan struct{}
	published        *v1alpha1.NodeCPU // the NodeCPU on the API server; nil if unknown
	readAt           time.Time         // time of the last call of get
	loggedReason     metrics.Reason    // logged reason of the last failure; "" after a success
	hasSucceeded     bool
	loggedDifference difference // result of the last comparison; a difference in it is already logged
	reminder         events.Reminder
}

// A recorder records and writes Events. *events.Recorder implements it.
type recorder interface {
	events.Sink
	Run(context.Context)
}

// Events returns the sink of Events about the node and its pods. Run writes these Events.
func (p *Publisher) Events() events.Sink { return p.events }

// Changed signals a possible change of the report. It never blocks.
func (p *Publisher) Changed() {
	select {
	case p.changed <- struct{}{}:
	default: // a signal is already pending
	}
}

// A Report returns the current report of the node, without counter and time.
type Report func() (v1alpha1.NodeCPUStatus, error)

// Run publishes reports and writes Events until ctx is done.
func (p *Publisher) Run(ctx context.Context, report Report) {
	go p.events.Run(ctx)
	wait := interval
	for ctx.Err() == nil {
		err := p.publish(ctx, report)
		if ctx.Err() != nil {
			return
		}
		p.recordResult(err)
		if err != nil {
			pause(ctx, wait, nil)
			wait = min(2*wait, maxWait)
			continue
		}
		wait = interval
		pause(ctx, interval, nil)
		pause(ctx, checkInterval, p.changed)
	}
}

// pause waits until a time has passed, changed receives a signal, or ctx is done.
func pause(ctx context.Context, most time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-changed:
	}
}

// publish writes the current report, unless the API server already has an equal report.
func (p *Publisher) publish(ctx context.Context, report Report) (err error) {
	status, err := report()
	if err != nil {
		return err
	}
	if p.published == nil || time.Since(p.readAt) >= readInterval {
		if p.published, err = p.api.get(ctx); err != nil {
			p.published = nil
			return err
		}
		p.readAt = time.Now()
		p.compareAllocatable(ctx, &status)
	}
	if isEqual(&status, &p.published.Status) {
		return nil
	}
	next := *p.published
	status.Counter, status.Reported = p.published.Status.Counter+1, metav1.Now()
	next.Status = status
	if p.published, err = p.api.write(ctx, &next); err != nil {
		p.published = nil // the write may have succeeded nevertheless
		return err
	}
	p.published.Status = status // if older CRDs have dropped new fields, the next comparison must not see a change
	p.listener.Reported()
	return nil
}

// isEqual reports whether two reports are equal, apart from counter and time.
func isEqual(a, b *v1alpha1.NodeCPUStatus) bool {
	c := *a
	c.Counter, c.Reported = b.Counter, b.Reported
	return reflect.DeepEqual(&c, b)
}

// recordResult passes the result of an attempt to the listener, and logs it if it differs from the last result.
func (p *Publisher) recordResult(err error) {
	if err != nil {
		reason := reasonOf(err)
		p.listener.Unreported(reason)
		if reason != p.loggedReason {
			p.log.Warn("not published; the node continues", "reason", err)
		}
		p.loggedReason = reason
		return
	}
	p.listener.UpToDate()
	if p.loggedReason != "" || !p.hasSucceeded {
		p.log.Info("published", "counter", p.published.Status.Counter)
	}
	p.loggedReason, p.hasSucceeded = "", true
}

// reasonOf returns the reason of a failure, for metrics.
func reasonOf(err error) metrics.Reason {
	switch {
	case errors.Is(err, errState):
		return metrics.BadState
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return metrics.Forbidden
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return metrics.Conflict
	case apierrors.IsInvalid(err), apierrors.IsNotFound(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return metrics.Invalid
	default:
		return metrics.Unreachable
	}
}
