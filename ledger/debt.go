package ledger

import (
	"math"
	"time"
)

// A Trend estimates the helper CPU time that a container causes, relative to the elapsed time and to the container's own CPU time. The zero
// value is a container without helpers.
type Trend struct{ span, own, charged float64 } // weighted sums in nanoseconds; older parts have less weight

const (
	trendMemory = 500 * time.Millisecond // the weight of a part falls to 1/e after this time

	// In each period, Quota corrects this share of a positive account (creditShare) or of a debt (debtShare). A positive account can
	// be spent fast, because the helper time that it pays for is known. Debt is paid slowly, because the charges of a period arrive
	// in the next periods.
	creditShare, debtShare = 0.5, 0.1
)

// Add adds the own CPU time and the charged CPU time of a time span.
func (t *Trend) Add(own, charged, span time.Duration) {
	factor := math.Exp(-float64(span) / float64(trendMemory))
	t.span = t.span*factor + float64(span)
	t.own = t.own*factor + float64(own)
	t.charged = t.charged*factor + float64(charged)
}

// IsCharged reports whether the helpers have worked for the container lately.
func (t *Trend) IsCharged() bool { return t.charged >= 1 }

// Charged estimates the CPU time that the helpers use in a time span.
func (t *Trend) Charged(span time.Duration) time.Duration {
	if t.span <= 0 {
		return 0
	}
	return time.Duration(max(t.charged, 0) / t.span * float64(span))
}

// OwnShare returns the CPU time of the container itself, divided by the CPU time of the container and its helpers: 0 to 1.
func (t *Trend) OwnShare() float64 {
	if t.charged <= 0 {
		return 1
	}
	return max(t.own, 0) / (max(t.own, 0) + t.charged)
}

// Quota returns the CPU time that a container can use itself in the next period. With it, the container and its charges
// together use the limit (CPU time per period). saved is the account of the container: the CPU time that the limit has
// allowed, minus the own CPU time and the charges; negative: debt. The result can exceed the limit, and can be 0.
//
// Charges can be proportional to the container's own work, as for a program that writes to its log, or independent of it, as for received
// packets. So Quota computes a result for each of these two cases, and returns the larger result. The results are equal if the container
// uses its whole quota and the account is 0.
func (t *Trend) Quota(limit, period, saved time.Duration) time.Duration {
	total := float64(limit)
	if saved > 0 {
		total += creditShare * float64(saved)
	} else {
		total += debtShare * float64(saved)
	}
	if !t.IsCharged() || t.span <= 0 {
		return time.Duration(max(total, 0))
	}
	independent := total - t.charged/t.span*float64(period)
	proportional := total * t.OwnShare()
	return time.Duration(max(independent, proportional, 0))
}
