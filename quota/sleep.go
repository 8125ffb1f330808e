package quota

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// now returns the time on the clock of the kernel's timers.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(t.Nano())
}

// A sleeper sleeps until a moment or until a context is done. Its precision is about 0.1 ms, whereas the precision of Go's
// timers is 1 ms.
type sleeper struct {
	event int         // eventfd that is written when the context is done
	stop  func() bool // ends the observation of the context
}

func newSleeper(ctx context.Context) (*sleeper, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	written := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(written)
		_, _ = unix.Write(event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // fails only if the counter is full, and then poll returns too
	})
	return &sleeper{event, func() bool {
		if stop() {
			return true
		}
		<-written // wait for a write in progress, because the kernel can reuse the closed file descriptor
		return false
	}}, nil
}

// sleepUntil sleeps until a moment or until the context is done. A signal can end the sleep early.
func (s *sleeper) sleepUntil(wake time.Duration) {
	timeout := unix.NsecToTimespec(int64(wake - now()))
	if timeout.Sec < 0 || timeout.Nsec < 0 {
		return
	}
	_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(s.event), Events: unix.POLLIN}}, &timeout, nil)
}

func (s *sleeper) close() {
	s.stop()
	unix.Close(s.event)
}
