package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/candor-project/candor/fleet"
)

// ErrTooFew says that no number of machines was found that meets the target.
var ErrTooFew = errors.New("no number of machines meets the target")

// mostTimes is how often the trace's machines are had at most.
const mostTimes = 64

// errMissed ends a replay that can't meet the target any more.
var errMissed = errors.New("target missed")

// FewestMachines finds for each point the fewest machines of the trace's mix that meet the
// target, and returns the results with these; see Resize. It halves the range in
// which the number must lie, which finds the fewest if more machines never do worse; in any
// case, one machine less has been tried and does not meet it.
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

// fewest does it for one point.
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
