package host

import (
	"cmp"
	"context"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// A container's engine has requested a quota, a period, a burst and cpu.shares. For most containers, the values follow from the
// grant (requestFromGrant). The state stores a request only if it differs, for example after docker run --cpu-shares.

// EngineRequest holds the CPU settings that an engine requested for a container.
type EngineRequest = state.EngineRequest

// requestFromGrant returns the request that follows from a grant: the limit as a quota, and in a pod cpu.shares as the
// kubelet computes them. A program of candor run has no engine; its request is its limit and its burst.
func requestFromGrant(g *Grant) EngineRequest {
	r := EngineRequest{QuotaUs: g.Limit.Quota(g.Period).Microseconds(), PeriodUs: g.Period.Microseconds()}
	switch {
	case g.Engine.Pod != "" && g.Class == hybrid.Sensitive:
		r.Shares = KubeletShares(g.Limit)
	case g.Engine.Pod != "":
		r.Shares = KubeletShares(guaranteeOf(g))
	case g.Engine == Engine{} && g.Limit != 0:
		unlimited := *g
		unlimited.Quota = g.Limit // the grant has no quota if the cpuset enforces the limit
		r.BurstUs = kernelBurst(&unlimited).Microseconds()
	}
	return r.Normal()
}

// KubeletShares converts a request for CPU time to cpu.shares (MilliCPUToShares in pkg/kubelet/cm of Kubernetes).
// hybrid.NoGuarantee gives the minimum.
func KubeletShares(m hybrid.Milli) int64 {
	const minShares, maxShares = 2, 262144
	return min(max(int64(m)*1024/1000, minShares), maxShares)
}

// saveEngineRequest stores the request of a new container, if it differs from the request that follows from its grant. If r is
// nil or does not differ, it removes a stored request.
func (op *operation) saveEngineRequest(g *Grant, r *EngineRequest) error {
	if r != nil {
		normal := r.Normal()
		if r = &normal; normal == requestFromGrant(g) {
			r = nil
		}
	}
	return op.store.SaveEngineRequest(g, r)
}

// engineRequestOf returns the request of a container. The stored request can be older than the last resize, so the limit and the guarantee
// come from the grant.
func engineRequestOf(s state.Store, g *Grant) EngineRequest {
	derived := requestFromGrant(g)
	r, ok := s.LoadEngineRequest(g)
	if !ok {
		return derived
	}
	if hybrid.MilliOf(r.QuotaUs, r.PeriodUs) != g.Limit {
		r.QuotaUs = g.Limit.Quota(time.Duration(r.PeriodUs) * time.Microsecond).Microseconds()
		r.BurstUs = min(r.BurstUs, r.QuotaUs)
	}
	if g.Engine.Pod != "" && !isSharesOf(r.Shares, g) {
		r.Shares = derived.Shares
	}
	return r
}

// isSharesOf reports whether cpu.shares match the grant of a pod's container. The kubelet computes cpu.shares from the CPU
// request, which is the limit of a sensitive container and the guarantee of a flexible container.
func isSharesOf(shares int64, g *Grant) bool {
	if g.Class == hybrid.Sensitive {
		return shares == 0 || shares == KubeletShares(g.Limit)
	}
	if shares <= 2 {
		return guaranteeOf(g) == hybrid.NoGuarantee
	}
	return hybrid.Milli((shares*1000+1023)/1024) == guaranteeOf(g)
}

// guaranteeOf returns the guarantee of a flexible container, which defaults to the limit.
func guaranteeOf(g *Grant) hybrid.Milli { return cmp.Or(g.Guarantee, g.Limit) }

// UpdateEngineRequest changes the stored request of a container after its engine has updated it. It does nothing for an
// unknown container.
func (h *Host) UpdateEngineRequest(ctx context.Context, name string, change func(*EngineRequest)) error {
	return h.operateOn(ctx, scope{name: name}, func(op *operation) error {
		g := op.info[name]
		if g == nil {
			return nil
		}
		r := engineRequestOf(op.store, g)
		change(&r)
		return op.saveEngineRequest(g, &r)
	})
}

// learnWeightScale records the scale with which the runtime of a container that has just started converts cpu.shares to
// cpu.weight. The cgroup still has the weight that the runtime has written, unless another operation was faster. If this fails,
// candor uninstall can give the container another cpu.weight than its runtime would. Nothing else depends on the record.
func (op *operation) learnWeightScale(g *Grant) {
	k := op.groups[g.ID]
	if op.tree.Version() != 2 || k == nil || k.isAssumed || k.unreadable != nil {
		return
	}
	weight := int64(g.Weight)
	// Packages engine/nri and engine/oci round differently.
	scale, ok := cgroup.WeightScaleOf(op.tree.KernelWeight(k.settings.Weight), max((weight*1024+500)/1000, 2), max(weight*1024/1000, 2))
	scales := op.store.LoadWeightScales()
	if known := scales.Of(g); ok && *known != scale {
		*known = scale
		if err := op.store.SaveWeightScales(scales); err != nil {
			op.log.Info("cannot record the weight scale of a runtime", "error", err)
		}
	}
}

// settingsOfRequest returns the settings that a container's cgroup would have without Candor. They follow from the engine's
// request.
func (h *Host) settingsOfRequest(g *Grant) cgroup.CPUSettings {
	r, scales := engineRequestOf(h.store, g), h.store.LoadWeightScales()
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	s := cgroup.CPUSettings{Burst: us(r.BurstUs)}
	s.Quota, s.Period = us(r.QuotaUs), us(r.PeriodUs)
	s.Weight = h.tree.RuntimeWeight(r.Shares, *scales.Of(g))
	if r.Weight != 0 && h.tree.Version() == 2 {
		s.Weight = r.Weight
	}
	return s
}
