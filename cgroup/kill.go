package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
)

// plainKillTimeout bounds the time in which processes are killed without freezing their group.
const plainKillTimeout = time.Second

// Kill sends a signal to every process of the group, nested groups included.
// SIGKILL goes to those too that are started meanwhile, and Kill returns when
// the group is empty: ErrBusy if processes outlast it by 30 s (they hang in the kernel).
// Another signal may miss processes that are started while it is sent.
func (g *Group) Kill(sig syscall.Signal) error {
	if g.err != nil {
		return g.err
	}
	if err := g.refuseForeign(); err != nil {
		return err
	}
	var err error
	if sig == syscall.SIGKILL {
		err = g.killAll()
	} else {
		_, err = g.signal(sig)
	}
	return g.wrap(err)
}

// End ends all processes of the group, as Kill(SIGKILL) does, and removes it. A missing group is no error.
func (g *Group) End() error {
	err := g.Kill(syscall.SIGKILL)
	if err == nil {
		err = g.Remove()
	}
	if errors.Is(err, ErrNoGroup) {
		return nil
	}
	return err
}

// killAll kills all processes and waits for their end.
func (g *Group) killAll() error {
	isHere := false
	self := os.Getpid()
	err := g.each(maxGroups, func(pid int) (more bool) { isHere = pid == self; return !isHere })
	if err != nil && !errors.Is(err, ErrTooMany) {
		return err
	} else if isHere {
		return errors.New("this process is in the group, and does not kill itself")
	}
	if h := g.tree.reaper; h != nil && h.v2 {
		if err := killV2(g.dir(h)); err == nil {
			return g.killRemaining()
		} else if !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	// This kernel cannot kill a group at once. In a frozen group no process forks. But if this process is killed meanwhile, the group
	// stays frozen, so the freezer is for groups that outrun the plain way.
	if err := g.killFor(plainKillTimeout); !errors.Is(err, ErrBusy) {
		return err
	}
	thaw, err := g.freeze()
	if err != nil {
		return err
	}
	_, err = g.signal(syscall.SIGKILL)
	if err := errline.Join(err, thaw()); err != nil && !isGone(err) {
		return err
	}
	return g.killRemaining()
}

// killRemaining kills the remaining processes until none is left.
func (g *Group) killRemaining() error { return g.killFor(killTimeout) }

func (g *Group) killFor(limit time.Duration) error {
	for wait := newWait(g.tree.remainingTime(limit)); ; {
		ok, err := g.isPopulated()
		if isGone(err) || err == nil && !ok {
			return nil
		}
		if err != nil {
			return err
		}
		if !wait.next() {
			pids, _ := g.processes()
			return fmt.Errorf("processes %v do not end: %w", pids[:min(len(pids), 5)], ErrBusy)
		}
		if _, err := g.signal(syscall.SIGKILL); err != nil && !isGone(err) { // systemd removes an empty scope
			return err
		}
	}
}

// signal signals the present processes of the group. It holds a pidfd of each process and checks its group again before the signal: a
// process elsewhere that reuses the ID gets no signal.
func (g *Group) signal(sig syscall.Signal) (n int, err error) {
	pids, err := g.processes()
	if err != nil {
		return 0, err
	}
	const batchSize = 256 // handles are file descriptors
	for part := range slices.Chunk(pids, batchSize) {
		sent, err := g.signalChecked(part, sig)
		if n += sent; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (g *Group) signalChecked(pids []int, sig syscall.Signal) (n int, err error) {
	handles := make([]*os.Process, 0, len(pids))
	for _, pid := range pids {
		p, err := os.FindProcess(pid)
		if err != nil {
			return 0, err
		}
		defer p.Release()
		handles = append(handles, p)
	}
	present, err := g.processes()
	if err != nil {
		return 0, err
	}
	for _, p := range handles {
		if _, found := slices.BinarySearch(present, p.Pid); !found {
			continue
		}
		err := p.Signal(sig)
		if err == nil {
			n++
		} else if !isEnded(err) {
			return n, fmt.Errorf("signal %v to process %d: %w", sig, p.Pid, err)
		}
	}
	return n, nil
}

// killV2 lets the kernel kill a group (Linux 5.14). ENOENT: it can't.
func killV2(dir string) error { return writeInt(dir, "cgroup.kill", 1) }

// freeze stops the group's processes, including processes that are starting. Without a freezer it does nothing. thaw resumes them.
func (g *Group) freeze() (thaw func() error, err error) {
	h := g.tree.reaper
	switch {
	case h == nil:
		return func() error { return nil }, nil
	case h.v2:
		return g.writeFreezer("cgroup.freeze", "1", "0", func(dir string) (bool, error) {
			events, err := read(dir, "cgroup.events")
			if err != nil {
				return false, err
			}
			n, err := parseField(events, "frozen")
			return n == 1, err
		})
	}
	return g.writeFreezer("freezer.state", "FROZEN", "THAWED", func(dir string) (bool, error) {
		state, err := read(dir, "freezer.state")
		return string(state) == "FROZEN", err
	})
}

// writeFreezer writes and waits. A process that can't be frozen (it hangs in the
// kernel) is no reason to fail: it can't fork either.
func (g *Group) writeFreezer(file, freezeValue, thawValue string, done func(dir string) (bool, error)) (thaw func() error, err error) {
	dir := g.dir(g.tree.reaper)
	thaw = func() error {
		if err := write(dir, file, thawValue); err != nil && !isGone(err) {
			return err
		}
		return nil
	}
	if err := write(dir, file, freezeValue); err != nil {
		if isGone(err) { // half a group
			return thaw, nil
		}
		return nil, err
	}
	for wait := newWait(g.tree.remainingTime(removeTimeout)); ; {
		frozen, err := done(dir)
		if err != nil && !isGone(err) {
			_ = thaw()
			return nil, err
		}
		if frozen || err != nil || !wait.next() {
			return thaw, nil
		}
	}
}

// Frozen reports whether the group itself is frozen (docker pause). Without a freezer it is false.
func (g *Group) Frozen() (bool, error) {
	h := g.tree.reaper
	if h == nil {
		return false, nil
	}
	file := "freezer.self_freezing"
	if h.v2 {
		file = "cgroup.freeze"
	}
	state, err := read(g.dir(h), file)
	if err != nil && isGone(err) {
		return false, nil
	}
	return string(state) == "1", err
}

// Thaw lets the processes of a group that is frozen go on.
func (g *Group) Thaw() error {
	h := g.tree.reaper
	if h == nil {
		return nil
	}
	if h.v2 {
		return write(g.dir(h), "cgroup.freeze", "0")
	}
	return write(g.dir(h), "freezer.state", "THAWED")
}
