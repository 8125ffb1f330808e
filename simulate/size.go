package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/candor-project/candor/fleet"
)

// ErrTooFew reports that no tried number of machines meets the target.
var ErrTooFew = errors.New("no number of machines meets the target")

// mostTimes bounds the search, as a multiple of the trace's machines.
const mostTimes = 64

// errMissed ends a replay that can't meet the target any more.
var errMissed = errors.New("target missed")

// FewestMachines finds for each point the smallest number of machines of the trace's mix that meets the target, and returns the results;
// see ResizeMachines. It uses binary search, which finds the minimum if more machines never do worse; in any case, a machine less was
// tried and does not meet the target.
func FewestMachines(ctx context.Context, s Setting, points []Point, t Target) ([]Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	had, err := countMachines(s.Open)
	if err != nil {
		return nil, err
	}
	s.missed = t.missed
	return each(ctx, points, func(ctx context.Context, p Point) (Result, error) {
		result, err := fewest(ctx, s, p, t, had)
		if err == nil {
			s.Progress.finish(result.Events)
		}
		return result, err
	})
}

// fewest is FewestMachines for a point.
func fewest(ctx context.Context, s Setting, p Point, t Target, had int) (best Result, err error) {
	missing, enough := 0, 0 // machines that do not meet the target, and that do
	try := func(n int) error {
		s.Machines = n
		r, err := Run(ctx, s, p)
		if err != nil && !errors.Is(err, errMissed) {
			return err
		}
		if err == nil && t.Meets(&r) {
			best, enough = r, n
			best.Machines = n
		} else {
			missing = n
		}
		return nil
	}
	for n := max(had, 1); enough == 0; n *= 2 {
		if n > min(had*mostTimes, fleet.MaxNodes) {
			return best, fmt.Errorf("%w %s: %s, %s, %d times the trace's %d machines do not", ErrTooFew, t, p.Algorithm, p.Policy, missing/max(had, 1), had)
		}
		if err := try(n); err != nil {
			return best, err
		}
	}
	for missing+1 < enough {
		if err := try((missing + enough) / 2); err != nil {
			return best, err
		}
	}
	return best, nil
}
