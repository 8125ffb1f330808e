package host

import "context"

// Reconcile is an operation that changes nothing by itself: it reaps what has
// ended and plans anew what no longer fits, after the options have changed.
func (h *Host) Reconcile(ctx context.Context) error {
	return h.operate(ctx, func(*operation) error { return nil })
}
