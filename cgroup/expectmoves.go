package cgroup

import (
	"os"
	"slices"
)

// ExpectMoves tells the kernel that processes are about to be moved between groups, as the start of a container does, and does not
// wait. The first move in a while waits for a grace period of RCU, 5 to 15 ms, during which the kernel stops counting who forks and
// ends by CPU; for about as long after a move the next ones don't. (cgroup_threadgroup_rwsem; on v2 the mount option
// favordynmods has all moves fast, and forks slower.) So this process is moved to the group that it is in. No other move waits
// longer for it than it would have by itself.
func (t *Tree) ExpectMoves() {
	if t.expects.CompareAndSwap(false, true) {
		go func() {
			defer t.expects.Store(false)
			_ = t.moveNowhere() // somebody waits some milliseconds more
		}()
	}
}

// moveNowhere moves this process to the group that it is in. One goroutine at a time.
func (t *Tree) moveNowhere() error {
	if !isIn(t.own) {
		if t.alien {
			return nil
		}
		t.own = t.findOwn()
		if t.alien = t.own == ""; t.alien {
			return nil
		}
	}
	return writeInt(t.own, procsFile, 0)
}

// isIn reports whether this process is in the group of a folder.
func isIn(dir string) bool {
	if dir == "" {
		return false
	}
	pids, err := processesIn(dir, nil)
	return err == nil && slices.Contains(pids, os.Getpid())
}

// findOwn returns the folder of the group that this process is in, "" if it is not seen from here. In a cgroup namespace of its own,
// as a container has it, that is not where /proc says.
func (t *Tree) findOwn() (own string) {
	if dirs, err := t.places(os.Getpid()); err == nil {
		if dir := dirs[slices.Index(t.all, t.cpu)]; isIn(dir) {
			return dir
		}
	}
	_ = t.cpu.walk(t.cpu.mount, func(dir string) error {
		if own == "" && isIn(dir) {
			own = dir
		}
		return nil
	})
	return own
}
