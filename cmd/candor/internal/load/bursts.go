package load

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Bursts is a program that computes with all of its threads at once, rests, and so on.
type Bursts struct {
	Threads int
	For     time.Duration // each burst lasts so long; 0: as Work says
	Work    time.Duration // CPU time of each thread in a burst
	Rest    time.Duration // between the end of a burst and the next one
	Length  time.Duration // of all
}

// Run runs it until its length is over or ctx is done. A burst takes until its last thread has ended. One that is cut short
// by the end is not counted, but for its CPU time.
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

// once is one burst. It returns the CPU time that its threads have used, and whether ctx has cut it short.
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
				for range 10000 { // some microseconds
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

// done reports whether a thread that has used so much has ended its part.
func (b Bursts) done(from time.Time, used time.Duration) bool {
	if b.For > 0 {
		return time.Since(from) >= b.For
	}
	return used >= b.Work
}

// threadTime is the CPU time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // the clock is there on every Linux
	}
	return time.Duration(t.Nano())
}

// sleep waits, at the most until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
