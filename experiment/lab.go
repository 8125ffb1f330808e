package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/engine/oci"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
)

// A Lab is where workloads run: a host with a state and groups of its own, beside that of the machine's
// containers. Nothing of it stays, also when the process that has it is killed.
type Lab struct {
	place
	host   *host.Host
	taken  cpuset.Set // reserved, or somebody's: the machine's own containers have them
	usable cpuset.Set // the others
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

// guardVariable is set for a guard and all that it starts. The guard is this program, started again: one that opened a lab
// there (a test binary that does not know GuardCommand) would start guards without end.
const guardVariable = "CANDOR_EXPERIMENT_GUARD"

// ErrInGuard is a lab that would be opened by a lab's guard.
var ErrInGuard = errors.New("no lab within a lab's guard")

// OpenLab opens a lab for this process, beside a machine's containers: it leaves alone the CPUs that those have for
// themselves, and those that are reserved. The error is that of host.Open where the machine does not let it.
func OpenLab(machine host.Options) (*Lab, error) {
	if os.Getenv(guardVariable) != "" {
		return nil, fmt.Errorf("%w: %s is set", ErrInGuard, guardVariable)
	}
	if err := sweep(); err != nil {
		return nil, err
	}
	l := &Lab{place: placeOf(os.Getpid())}
	var err error
	if l.taken, err = takenOn(machine); err != nil {
		return nil, err
	}
	if l.host, err = l.open(); err != nil {
		return nil, err
	}
	if err = l.startGuard(); err == nil {
		l.usable, err = l.host.Usable()
	}
	if l.usable = l.usable.Minus(l.taken); err == nil && l.usable.IsEmpty() {
		err = fmt.Errorf("%w: all are reserved, or containers have them for themselves: candor map shows who", ErrTooSmall)
	}
	if err != nil {
		return nil, errline.Join(err, l.Close())
	}
	return l, nil
}

// takenOn returns the CPUs that a machine's sensitive containers have, and those that are reserved.
func takenOn(machine host.Options) (taken cpuset.Set, err error) {
	machine.Cgroup.ReadOnly = true
	h, err := host.Open(machine)
	if err != nil {
		return taken, err
	}
	defer h.Close()
	options, err := h.NodeOptions()
	if err != nil {
		return taken, err
	}
	s, err := h.Snapshot()
	if err != nil {
		return taken, err
	}
	taken = options.Reserved
	for i := range s.Grants {
		if g := &s.Grants[i]; g.Class == hybrid.Sensitive {
			taken.AddAll(&g.CPUs)
		}
	}
	return taken, nil
}

// sweep clears what is left of labs whose process and guard have both been killed.
func sweep() error {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(host.DefaultStateDir()), placeName+"*"))
	var errs []error
	for _, dir := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), placeName), ".") // what is beside it has another ending
		pid, bad := strconv.Atoi(number)
		if bad == nil && unix.Kill(pid, 0) == unix.ESRCH {
			errs = append(errs, placeOf(pid).clear())
		}
	}
	return errline.Join(append(errs, err)...)
}

// placeName is what the names of places begin with.
const placeName = "candor-experiment-"

// placeOf is the place of the lab that a process opens.
func placeOf(pid int) place {
	name := placeName + strconv.Itoa(pid)
	return place{dir: filepath.Join(filepath.Dir(host.DefaultStateDir()), name), parent: "/" + name}
}

// config is the file of the lab's host that says what a set-up must not have.
func (p place) config() string { return filepath.Join(p.dir, "host.json") }

// open opens the lab's host. Its groups are made without systemd: they live for minutes, and no unit tells of them.
func (p place) open() (*host.Host, error) {
	return host.Open(host.Options{
		StateDir: p.dir,
		Config:   p.config(),
		Cgroup:   cgroup.Options{Parent: p.parent, Driver: cgroup.Cgroupfs},
		Log:      slog.New(slog.DiscardHandler),
		OnEnd:    oci.NoteUsage(p.dir),
	})
}

// startGuard starts the guard. It is in a session of its own, so that what ends this process does not end it.
func (l *Lab) startGuard() error {
	l.guard = exec.Command("/proc/self/exe", GuardCommand, l.dir, l.parent)
	l.guard.Env = append(os.Environ(), guardVariable+"=1")
	l.guard.SysProcAttr, l.guard.Stderr = &syscall.SysProcAttr{Setsid: true}, os.Stderr
	leash, err := l.guard.StdinPipe()
	ready, readyErr := l.guard.StdoutPipe()
	if err = cmp.Or(err, readyErr); err == nil {
		err = l.guard.Start()
	}
	if err != nil {
		l.guard = nil
		return fmt.Errorf("start guard: %w", err)
	}
	l.leash = leash
	if _, err := io.ReadFull(ready, make([]byte, len(guardReady))); err != nil { // what ends a service would end it before
		return fmt.Errorf("start guard: %w", err)
	}
	return nil
}

// guardReady is what a guard writes when signals do not end it any more.
const guardReady = "ready\n"

// RunGuard is the guard's life. Signals that end a whole service, or a job of CI, do not end it.
func RunGuard(dir, parent string, leash io.Reader) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	fmt.Print(guardReady)
	if _, err := io.Copy(io.Discard, leash); err != nil {
		return err
	}
	return place{dir, parent}.clear()
}

// clear ends all that runs in a place and removes it.
func (p place) clear() error {
	h, err := p.open()
	if err != nil {
		return err
	}
	defer h.Close()
	return p.clearOn(h)
}

// clearOn is clear with the lab's host. Containers go first: their end is told to that.
func (p place) clearOn(h *host.Host) error {
	containers := p.clearContainers()
	err := h.Clear(context.Background())
	if err == nil {
		err = errline.Join(p.scratch().remove(), p.forgetBookings())
	}
	return errline.Join(containers, err)
}

// Close ends all that runs in the lab and leaves nothing of it.
func (l *Lab) Close() error {
	err := l.place.clearOn(l.host)
	if l.guard != nil {
		err = errline.Join(err, l.leash.Close(), l.guard.Wait())
	}
	return errline.Join(err, l.host.Close())
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

// reserve keeps CPUs from the lab's containers that a set-up must not have.
func (l *Lab) reserve(s *Setup) error {
	return l.host.SetOptions(host.NodeOptions{Reserved: l.taken.Union(s.beyond(l.usable))})
}
