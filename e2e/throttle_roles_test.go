package e2e

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time of CLOCK_MONOTONIC, which is the same for all processes.
func monotonic() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

// threadTime returns the CPU time of this thread.
func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// spinFor keeps the thread busy until the clock has advanced by a duration.
func spinFor(clock func() time.Duration, length time.Duration) {
	for end := clock() + length; clock() < end; {
		for range 2000 { // some microseconds without a system call
			spinCount++
		}
	}
}

// spinCount is the target of the additions. Each thread adds to it, so that the compiler keeps the loop.
var spinCount int

// burstsRole is threads that are busy at once, for a time or for an amount of CPU time each, at given moments,
// and rest between them:
//
//	THREADS for|work LENGTH EVERY TIMES
//
// Of each burst it prints the nanoseconds until its last thread had ended, and the CPU time of all.
func burstsRole(args []string) int {
	threads, _ := strconv.Atoi(args[0])
	length, _ := time.ParseDuration(args[2])
	every, _ := time.ParseDuration(args[3])
	times, _ := strconv.Atoi(args[4])
	runtime.GOMAXPROCS(threads + 1) // a thread each, from the start
	by := monotonic
	if args[1] == "work" {
		by = threadTime
	}
	var done sync.WaitGroup
	begin := make([]chan bool, threads)
	used := make([]time.Duration, threads)
	for i := range begin {
		begin[i] = make(chan bool)
		go func() {
			runtime.LockOSThread()
			for range begin[i] {
				before := threadTime()
				spinFor(by, length)
				used[i] = threadTime() - before
				done.Done()
			}
		}()
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin) // until it is in its group
	start := monotonic() + every/2
	for n := range times {
		time.Sleep(start + time.Duration(n)*every - monotonic())
		began := monotonic()
		done.Add(threads)
		for _, thread := range begin {
			thread <- true
		}
		done.Wait()
		took, all := monotonic()-began, time.Duration(0)
		for _, u := range used {
			all += u
		}
		fmt.Println(int64(took), int64(all))
	}
	return 0
}
