package scheduler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is the plugin's, in kube-scheduler's configuration and in its metrics.
const Name = "Candor"

// A Plugin is Candor's plugin in a profile of kube-scheduler.
type Plugin struct {
	*shared
	handle  fwk.Handle // of the profile
	narrows bool       // allowed to evaluate the best nodes only
	seats   seats
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.BindPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// Factory returns the constructor of the plugin for each profile of a scheduler. All profiles share the state of the cluster, so that no
// two of them allocate the same CPUs.
func Factory() func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	var one *shared
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		o, err := readArgs(args)
		if err != nil {
			return nil, err
		}
		if one != nil {
			if !one.options.same(&o) {
				return nil, fmt.Errorf("args of plugin %s: they differ between profiles: must be the same in each", Name)
			}
			return &Plugin{shared: one, handle: handle}, nil
		}
		s := newShared(o, handle, klog.FromContext(ctx))
		if err := s.start(ctx, handle); err != nil {
			return nil, err
		}
		one = s
		return &Plugin{shared: one, handle: handle}, nil
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }
