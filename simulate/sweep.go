package simulate

import (
	"context"
	"runtime"
	"sync"
)

// Sweep runs points in parallel, on as many cores as Go can use, and returns their results in the order of the points. If the context ends
// first, Sweep returns the context's error with the results of the finished and the interrupted points; the results of interrupted points
// have Stopped set. If a point fails, Sweep stops the other points and returns the error.
func Sweep(ctx context.Context, s Setting, points []Point) ([]Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return forEachPoint(ctx, points, func(ctx context.Context, p Point) (Result, error) {
		result, err := Run(ctx, s, p)
		if err == nil {
			s.Progress.finish(result.Events)
		}
		return result, err
	})
}

// forEachPoint calls the function do for every point, in parallel.
func forEachPoint(ctx context.Context, points []Point, do func(context.Context, Point) (Result, error)) ([]Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]Result, len(points))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(points)) {
		workers.Go(func() {
			for i := range next {
				result, err := do(ctx, points[i])
				if err != nil && ctx.Err() == nil {
					cancel(err)
				}
				results[i] = result
			}
		})
	}
	sendIndexes(ctx, next, len(points))
	workers.Wait()
	return dropUnstarted(results), context.Cause(ctx)
}

// sendIndexes sends the indexes of the points to the workers until the context ends.
func sendIndexes(ctx context.Context, next chan<- int, points int) {
	defer close(next)
	for i := range points {
		select {
		case next <- i:
		case <-ctx.Done():
			return
		}
	}
}

// dropUnstarted removes the results of points that were stopped before their first event.
func dropUnstarted(results []Result) []Result {
	kept := results[:0]
	for _, r := range results {
		if finished := r.Algorithm != "" && !r.Stopped; finished || r.Events > 0 {
			kept = append(kept, r)
		}
	}
	return kept
}
