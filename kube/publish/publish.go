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
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/metrics"
)

const (
	interval    = time.Second      // between two writes, at least
	longestWait = time.Minute      // between two tries
	lookEvery   = 10 * time.Second // other programs change the state, too: candor run, Docker's wrapper
	readEvery   = 5 * time.Minute  // another program can remove the object
)

// An api is where the reports go.
type api interface {
	// get returns the node's object. It creates the object if it is missing, and takes over an object of a former Node with the same name.
	get(context.Context) (*v1alpha1.NodeCPU, error)
	// write replaces the status of an object, unless it has changed since it was read.
	write(context.Context, *v1alpha1.NodeCPU) (*v1alpha1.NodeCPU, error)
	// allocatable returns the kubelet's allocatable CPU; 0: not reported.
	allocatable(context.Context) (hybrid.Milli, error)
}

// A Listener receives the results of reports, for the metrics.
type Listener interface {
	Reported()
	UpToDate()
	Unreported(metrics.Reason)
}

// A Publisher publishes the reports of a node.
type Publisher struct {
	api      api
	log      *slog.Logger
	listener Listener

	changed chan struct{}
	there   *v1alpha1.NodeCPU // as the API server has it; nil: not known
	read    time.Time         // when that was read last
	said    metrics.Reason    // why nothing is published, as the log has it; "": it is, or was not tried yet
	began   bool
	differ  difference // as the log has it
}

// Changed signals a possible change of the report. It does not wait.
func (p *Publisher) Changed() {
	select {
	case p.changed <- struct{}{}:
	default: // that is known already
	}
}

// A Report returns the present report of the node, without counter and time.
type Report func() (v1alpha1.NodeCPUStatus, error)

// Run publishes reports until ctx is done.
func (p *Publisher) Run(ctx context.Context, report Report) {
	wait := interval
	for ctx.Err() == nil {
		err := p.publish(ctx, report)
		if ctx.Err() != nil {
			return
		}
		p.say(err)
		if err != nil {
			pause(ctx, wait, nil)
			wait = min(2*wait, longestWait)
			continue
		}
		wait = interval
		pause(ctx, interval, nil)
		pause(ctx, lookEvery, p.changed)
	}
}

// pause waits for a time, or until something has changed.
func pause(ctx context.Context, most time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-changed:
	}
}

// publish writes the report of now, unless the API server has it already.
func (p *Publisher) publish(ctx context.Context, report Report) (err error) {
	status, err := report()
	if err != nil {
		return err
	}
	if p.there == nil || time.Since(p.read) >= readEvery {
		if p.there, err = p.api.get(ctx); err != nil {
			p.there = nil
			return err
		}
		p.read = time.Now()
		p.compareAllocatable(ctx, &status)
	}
	if same(&status, &p.there.Status) {
		return nil
	}
	next := *p.there
	status.Counter, status.Reported = p.there.Status.Counter+1, metav1.Now()
	next.Status = status
	if p.there, err = p.api.write(ctx, &next); err != nil {
		p.there = nil // whether it was written is not known
		return err
	}
	p.there.Status = status // an older cluster keeps less of it, which is no change
	p.listener.Reported()
	return nil
}

// same compares reports, but for their counters and times.
func same(a, b *v1alpha1.NodeCPUStatus) bool {
	c := *a
	c.Counter, c.Reported = b.Counter, b.Reported
	return reflect.DeepEqual(&c, b)
}

// say counts the result of a report, and logs it if it differs from the last result.
func (p *Publisher) say(err error) {
	if err != nil {
		reason := reasonOf(err)
		p.listener.Unreported(reason)
		if reason != p.said {
			p.log.Warn("not published; the node goes on", "reason", err)
		}
		p.said = reason
		return
	}
	p.listener.UpToDate()
	if p.said != "" || !p.began {
		p.log.Info("published", "counter", p.there.Status.Counter)
	}
	p.said, p.began = "", true
}

// reasonOf returns the reason of a failed report.
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
