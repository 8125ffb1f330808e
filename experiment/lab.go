package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/oneline"
)

// A Lab is where workloads run: a host with a state and groups of its own, beside that of the machine's
// containers. Nothing of it stays, also when the process that has it is killed.
type Lab struct {
	place
	host   *host.Host
	usable cpuset.Set
	guard  *exec.Cmd
	leash  io.Closer // the guard waits until it is closed
}

// A place is where a lab keeps its things.
type place struct {
	dir    string // state
	parent string // group
}

// GuardCommand is the hidden subcommand of candor that clears a lab when the process that opened it has ended, in
// whatever way.
const GuardCommand = "internal-guard"

// OpenLab opens a lab for this process. The error is that of host.Open where the machine does not let it.
func OpenLab() (*Lab, error) {
	l := &Lab{place: placeOf(os.Getpid())}
	var err error
	if l.host, err = l.open(); err != nil {
		return nil, err
	}
	if err = l.startGuard(); err == nil {
		l.usable, err = l.host.Usable()
	}
	if err != nil {
		return nil, oneline.Join(err, l.Close())
	}
	return l, nil
}

// placeOf is the place of the lab that a process opens.
func placeOf(pid int) place {
	name := fmt.Sprintf("candor-experiment-%d", pid)
	return place{dir: filepath.Join(filepath.Dir(host.DefaultStateDir()), name), parent: "/" + name}
}

// open opens the lab's host. Its groups are made without systemd: they live for minutes, and no unit tells of them.
func (p place) open() (*host.Host, error) {
	return host.Open(host.Options{
		StateDir: p.dir,
		Config:   filepath.Join(p.dir, "host.json"), // none: nothing is reserved
		Cgroup:   cgroup.Options{Parent: p.parent, Driver: cgroup.Cgroupfs},
		Log:      slog.New(slog.DiscardHandler),
	})
}

// startGuard starts the guard. It is in a session of its own, so that what ends this process does not end it.
func (l *Lab) startGuard() error {
	l.guard = exec.Command("/proc/self/exe", GuardCommand, l.dir, l.parent)
	l.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	leash, err := l.guard.StdinPipe()
	if err == nil {
		err = l.guard.Start()
	}
	if err != nil {
		l.guard = nil
		return fmt.Errorf("start guard: %w", err)
	}
	l.leash = leash
	return nil
}

// RunGuard is the guard's life.
func RunGuard(dir, parent string, leash io.Reader) error {
	if _, err := io.Copy(io.Discard, leash); err != nil {
		return err
	}
	h, err := place{dir, parent}.open()
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Clear(context.Background())
}

// Close ends all that runs in the lab and leaves nothing of it.
func (l *Lab) Close() error {
	err := l.host.Clear(context.Background())
	if l.guard != nil {
		err = oneline.Join(err, l.leash.Close(), l.guard.Wait())
	}
	return oneline.Join(err, l.host.Close())
}

// ErrTooSmall is a set-up for which the machine has too few CPUs.
var ErrTooSmall = errors.New("too few CPUs")

// Check says for which set-up the machine is too small.
func (l *Lab) Check(setups []Setup) error {
	for i := range setups {
		s := &setups[i]
		if need, have := s.needs(), l.usable.Count(); need > have {
			return fmt.Errorf("%w for %v at a limit of %v: it needs %d, the machine has %d", ErrTooSmall, s, s.Limit, need, have)
		}
	}
	return nil
}

// reserve keeps CPUs from the lab's containers until the next one is made.
func (l *Lab) reserve(cpus cpuset.Set) error {
	return l.host.SetOptions(host.NodeOptions{Reserved: cpus})
}
