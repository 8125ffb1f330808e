package scheduler

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/kube/cluster"
)

// Name is the plugin's, in kube-scheduler's configuration and in its metrics.
const Name = "Candor"

// A Plugin is Candor's part of one profile of kube-scheduler.
type Plugin struct {
	handle  fwk.Handle
	options options
	cluster *cluster.Cluster
	places  places
	synced  []func() bool // what has to be known before anything is decided
	now     func() time.Time
	log     klog.Logger
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PreBindPlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New makes the plugin of a profile, and lets it listen to the cluster until the context ends.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	o, err := readArgs(args)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(handle.KubeConfig())
	if err != nil {
		return nil, err
	}
	registerMetrics()
	p := &Plugin{
		handle: handle, options: o, cluster: cluster.New(o.patience), now: time.Now, log: klog.FromContext(ctx),
	}
	p.places.log = p.log
	if err := p.listen(ctx, dynamicinformer.NewDynamicSharedInformerFactory(client, 0)); err != nil {
		return nil, err
	}
	go p.tick(ctx)
	return p, nil
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// tickEvery is how often it is looked for reservations whose time has passed.
const tickEvery = 5 * time.Second

func (p *Plugin) tick(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.expire()
		}
	}
}

// expire ends the reservations whose time has passed, and counts what there is.
func (p *Plugin) expire() {
	for _, e := range p.cluster.Expire(p.now()) {
		p.tellExpired(e)
	}
	countTotals(p.cluster.Totals())
}
