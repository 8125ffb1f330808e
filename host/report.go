package host

import (
	"errors"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A Report is what one operation took, from the wait for the lock on, and what it did to containers
// that nobody asked it about.
type Report struct {
	Wait, Read, Plan, Apply time.Duration // for the lock; state and kernel; what changes; groups, views and file

	Moves  int        // fractions of running containers that are on another CPU since
	Drift  int        // containers that had other settings than the state says
	Hint   HintResult // what became of the hint of the container that it has planned
	Failed bool       // it could not be applied; all is as it was
	Late   bool       // the lock did not come in time: Wait is all that there is
}

// tellLate reports an operation that has waited for the lock in vain.
func (h *Host) tellLate(err error) error {
	var late *lateError
	if errors.As(err, &late) {
		h.listener(Report{Wait: late.waited, Late: true})
	}
	return err
}

// A stopwatch tells how long each part of an operation takes.
type stopwatch struct{ since time.Time }

func (s *stopwatch) lap() time.Duration {
	now := time.Now()
	took := now.Sub(s.since)
	s.since = now
	return took
}

// moves counts the fractions that were moved. A container's own resize is no move.
func (op *operation) moves(grants []*Grant) (n int) {
	for _, g := range grants {
		if len(g.Fractions) == 0 {
			continue
		}
		was := op.before[g.ID]
		if was != nil && was.State == Running && was.Limit == g.Limit {
			moved := fractionalCPUs(&g.Grant).Minus(fractionalCPUs(&was.Grant))
			n += moved.Count()
		}
	}
	return n
}

func fractionalCPUs(g *hybrid.Grant) (cpus cpuset.Set) {
	for _, f := range g.Fractions {
		cpus.Add(f.CPU)
	}
	return cpus
}
