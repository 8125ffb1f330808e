package load

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Bursts is a program whose threads all compute at the same time, then rest, and repeat.
type Bursts struct {
	Threads int
	For     time.Duration // duration of each burst; 0: until Work is done
	Work    time.Duration // CPU time of each thread in a burst
	Rest    time.Duration // from the end of a burst to the start of the next
	Length  time.Duration // total duration
}

// Run runs the program until Length is over or ctx is done. A burst ends with its last thread. A burst that is cut
// short by the end counts only for its CPU time.
func (b Bursts) Run(ctx context.Context) *Report {
	ctx, cancel := context.WithTimeout(ctx, b.Length)
	defer cancel()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(b.Threads + 1))
	report := newReport("BURSTS")
	began := time.Now()
	for ctx.Err() == nil {
		from := time.Now()
		used, isCut := b.once(ctx, from)
		if report.CPU += used; !isCut {
			report.add(time.Since(from))
		}
		sleep(ctx, b.Rest)
	}
	report.Span = time.Since(began)
	return report
}

// once runs a burst. It returns the CPU time of its threads, and whether ctx cut the burst short.
func (b Bursts) once(ctx context.Context, from time.Time) (cpu time.Duration, isCut bool) {
	var ended, cut atomic.Bool
	defer context.AfterFunc(ctx, func() { ended.Store(true) })()
	used := make([]time.Duration, b.Threads)
	var all sync.WaitGroup
	for i := range used {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before := threadTime()
			for used[i] = 0; !b.done(from, used[i]); used[i] = threadTime() - before {
				if ended.Load() {
					cut.Store(true)
					return
				}
				for range 10000 { // takes some microseconds
				}
			}
		})
	}
	all.Wait()
	for _, u := range used {
		cpu += u
	}
	return cpu, cut.Load()
}

// done reports whether a thread that used some CPU time has completed its part.
func (b Bursts) done(from time.Time, used time.Duration) bool {
	if b.For > 0 {
		return time.Since(from) >= b.For
	}
	return used >= b.Work
}

// threadTime returns the CPU time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(t.Nano())
}

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
