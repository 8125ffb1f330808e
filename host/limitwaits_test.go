package host

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host/state"
)

// A cgroup that the kernel does not release (here a mount covers it) does not delay a waiting caller. The next
// operation removes it.
func TestLimitWaits(t *testing.T) {
	l := newLab(t)
	for _, left := range []string{"over", "orphaned"} {
		web := l.must(ask("web", "0.5"), "wait")
		dir := findCpusetDir(t, web.cmd.Process.Pid)
		web.stop()
		if left == "orphaned" {
			l.forge(func(s *state.State) { s.Grants = nil })
		} else {
			l.orphan()
		}
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // for good: the mount ends with the thread
			if err = unmountViews(); err == nil {
				err = unix.Mount(dir, dir, "", unix.MS_BIND, "")
			}
			if err != nil {
				return
			}
			ctx, cancel := context.WithTimeout(ctx, 8*time.Second) // without it, the call would wait for 10 s
			defer cancel()
			err = l.operate(ctx, func(*operation) error { return nil })
			if err == nil {
				err = ctx.Err()
			}
		}()
		if <-done; err != nil {
			t.Fatalf("%s: %v", left, err)
		}
		if s, err := l.Snapshot(); err != nil || len(s.Grants) != 0 || !strings.Contains(l.log.String(), "cannot remove the cgroup of an ended container yet") {
			t.Errorf("%s: %+v, %v; log: %s", left, s, err, l.log)
		}
		l.nudge()
		if names, err := l.tree.Groups(); err != nil || len(names) > 0 {
			t.Errorf("%s: %v is left, %v", left, names, err)
		}
		l.log.Reset()
	}
}
