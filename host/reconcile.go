package host

import "context"

// Reconcile is an operation that changes nothing by itself: it reaps what has
// ended and plans anew what no longer fits, after the options have changed.
func (h *Host) Reconcile(ctx context.Context) error {
	return h.operate(ctx, func(op *operation) error {
		op.everyPod = true
		return op.sayOutside()
	})
}

// Rewritten is Reconcile for a container to whose group its engine has just written, as it does at
// an update: what the grant says is set again, and is no news.
func (h *Host) Rewritten(ctx context.Context, name string) error {
	return h.operateOn(ctx, about{name: name}, func(op *operation) error {
		op.rewritten = name
		return nil
	})
}
