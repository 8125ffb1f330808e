package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/candor-project/candor/fleet"
)

// ErrTooFew reports that no tried number of machines meets the target.
var ErrTooFew = errors.New("no number of machines meets the target")

// maxScale limits the search to this multiple of the trace's number of machines.
const maxScale = 64

// errTargetMissed stops a replay that can no longer meet the target.
var errTargetMissed = errors.New("target missed")

// FewestMachines finds, for each point, the smallest number of machines that meets the target (see ResizeMachines), and returns
// the results with these numbers. The binary search finds the minimum if more machines never give a worse result. In any case,
// the returned number minus 1 does not meet the target: FewestMachines has tried that number, unless it is 0.
func FewestMachines(ctx context.Context, s Setting, points []Point, t Target) ([]Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	traceMachines, err := countMachines(s.Open)
	if err != nil {
		return nil, err
	}
	s.canStop = t.cannotMeet
	return forEachPoint(ctx, points, func(ctx context.Context, p Point) (Result, error) {
		result, err := fewestMachines(ctx, s, p, t, traceMachines)
		if err == nil {
			s.Progress.finish(result.Events)
		}
		return result, err
	})
}

// fewestMachines does the work of FewestMachines for a single point.
func fewestMachines(ctx context.Context, s Setting, p Point, t Target, traceMachines int) (best Result, err error) {
	tooFew, enough := 0, 0 // numbers of machines: the highest that misses the target, and the lowest that meets the target
	tryMachines := func(n int) error {
		s.Machines = n
		r, err := Run(ctx, s, p)
		if err != nil && !errors.Is(err, errTargetMissed) {
			return err
		}
		if err == nil && t.Meets(&r) {
			best, enough = r, n
			best.Machines = n
		} else {
			tooFew = n
		}
		return nil
	}
	for n := max(traceMachines, 1); enough == 0; n *= 2 {
		if n > min(traceMachines*maxScale, fleet.MaxNodes) {
			return best, fmt.Errorf("%w %s: %s, %s, %d times the trace's %d machines do not", ErrTooFew, t, p.Algorithm, p.Policy, tooFew/max(traceMachines, 1), traceMachines)
		}
		if err := tryMachines(n); err != nil {
			return best, err
		}
	}
	for tooFew+1 < enough {
		if err := tryMachines((tooFew + enough) / 2); err != nil {
			return best, err
		}
	}
	return best, nil
}
