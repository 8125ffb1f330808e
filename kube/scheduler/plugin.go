package scheduler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is the plugin's name in kube-scheduler's configuration and metrics.
const Name = "Candor"

// A Plugin is the instance of Candor's plugin in a profile of kube-scheduler.
type Plugin struct {
	*shared
	handle       fwk.Handle // framework of the profile
	mayPreselect bool       // the profile allows a preselection (canPreselect)
	nodeCache    nodeCache
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

// Factory returns a constructor of the plugin, which kube-scheduler calls for each profile. All these plugins share the state of the
// cluster, so that no two profiles allocate the same CPUs.
func Factory() func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	var one *shared
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		o, err := readArgs(args)
		if err != nil {
			return nil, err
		}
		if one != nil {
			if !one.options.isEqual(&o) {
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
