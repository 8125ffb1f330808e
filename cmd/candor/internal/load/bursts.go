package load

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Bursts is a load whose threads all compute at the same time, then rest, and repeat both.
type Bursts struct {
	Threads int
	For     time.Duration // duration of each burst; 0: Work determines the end of a burst
	Work    time.Duration // CPU time of each thread in a burst, if For is 0
	Rest    time.Duration // from the end of a burst to the start of the next
	Length  time.Duration // total duration
}

// Run runs bursts until Length is over or ctx is done. A burst ends when its last thread has finished. The report does not count a
// burst that the end of the run cuts short, but includes its CPU time.
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

// once runs a burst that starts at from. It returns the CPU time of all threads, and whether ctx cut the burst short.
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

// done reports whether a thread with the given CPU time has completed its part of a burst that started at from.
func (b Bursts) done(from time.Time, used time.Duration) bool {
	if b.For > 0 {
		return time.Since(from) >= b.For
	}
	return used >= b.Work
}

// threadTime returns the CPU time that the calling thread has used.
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
