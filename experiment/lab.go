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

// A Lab is a host that runs workloads, with its own state and cgroups beside the machine's containers. At its end the
// lab removes its state, processes and cgroups, even if the lab's process is killed.
type Lab struct {
	place
	host     *host.Host
	reserved cpuset.Set // reserved CPUs, and the CPUs of the machine's sensitive containers
	usable   cpuset.Set // all other CPUs
	guard    *exec.Cmd
	leash    io.Closer // closing it makes the guard clear the place and end
	foreign  labWatch
}

// A place holds the locations of a lab's state and cgroup.
type place struct {
	dir    string // state directory
	parent string // parent cgroup
}

// GuardCommand is the hidden subcommand of candor that removes a lab when the process that opened the lab ends for any
// reason.
const GuardCommand = "internal-guard"

// guardVariable is set for a guard and its child processes. The guard is the same binary, started again. Without
// guardVariable, a binary that does not know GuardCommand, such as a test binary, would open another lab and so start
// guards without end.
const guardVariable = "CANDOR_EXPERIMENT_GUARD"

// ErrInGuard means that the guard of a lab tried to open a lab.
var ErrInGuard = errors.New("cannot open a lab within a lab's guard")

// OpenLab opens a lab for this process beside a machine's containers. The lab does not use reserved CPUs, or CPUs of the
// machine's sensitive containers. If the machine does not support a host, OpenLab returns the error of host.Open.
func OpenLab(machine host.Options) (*Lab, error) {
	if os.Getenv(guardVariable) != "" {
		return nil, fmt.Errorf("%w: %s is set", ErrInGuard, guardVariable)
	}
	if err := sweep(); err != nil {
		return nil, err
	}
	l := &Lab{place: placeOf(os.Getpid())}
	var err error
	if l.reserved, err = reservedCPUs(machine); err != nil {
		return nil, err
	}
	if l.host, err = l.open(); err != nil {
		return nil, err
	}
	if err = l.startGuard(); err == nil {
		l.usable, err = l.host.Usable()
	}
	if l.usable = l.usable.Minus(l.reserved); err == nil && l.usable.IsEmpty() {
		err = fmt.Errorf("%w: all are reserved or exclusive to containers; candor map lists them", ErrTooSmall)
	}
	if err != nil {
		return nil, errline.Join(err, l.Close())
	}
	return l, nil
}

// reservedCPUs returns the reserved CPUs and the CPUs of a machine's sensitive containers.
func reservedCPUs(machine host.Options) (taken cpuset.Set, err error) {
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

// sweep clears the places of labs whose process and guard have both been killed.
func sweep() error {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(host.DefaultStateDir()), placeName+"*"))
	var errs []error
	for _, dir := range left {
		// A file beside the directory, such as engineFile, has a suffix.
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), placeName), ".")
		pid, bad := strconv.Atoi(number)
		if bad == nil && unix.Kill(pid, 0) == unix.ESRCH {
			errs = append(errs, placeOf(pid).clear())
		}
	}
	return errline.Join(append(errs, err)...)
}

// placeName is the prefix of the name of a lab's directory and cgroup.
const placeName = "candor-experiment-"

// placeOf returns the place (directory and cgroup) of a lab. pid is the process that opens the lab.
func placeOf(pid int) place {
	name := placeName + strconv.Itoa(pid)
	return place{dir: filepath.Join(filepath.Dir(host.DefaultStateDir()), name), parent: "/" + name}
}

// config returns the path of the host's configuration file. This file reserves the CPUs that a setup must not have.
func (p place) config() string { return filepath.Join(p.dir, "host.json") }

// open opens the lab's host. The host creates its groups without systemd, because the groups live for minutes only.
func (p place) open() (*host.Host, error) {
	return host.Open(host.Options{
		StateDir: p.dir,
		Config:   p.config(),
		Cgroup:   cgroup.Options{Parent: p.parent, Driver: cgroup.Cgroupfs},
		Log:      slog.New(slog.DiscardHandler),
		OnEnd:    oci.RecordUsage(p.dir),
	})
}

// startGuard starts the guard in its own session, so that signals to this process do not end the guard.
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
	// Before the guard has written this line, a signal would end the guard.
	if _, err := io.ReadFull(ready, make([]byte, len(guardReady))); err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	return nil
}

// guardReady is the line that a guard writes as soon as it ignores signals.
const guardReady = "ready\n"

// RunGuard waits until the leash is closed, and then clears the place. The end of the lab's process closes the leash too. RunGuard ignores
// the signals that end a whole service or CI job.
func RunGuard(dir, parent string, leash io.Reader) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	fmt.Print(guardReady)
	if _, err := io.Copy(io.Discard, leash); err != nil {
		return err
	}
	return place{dir, parent}.clear()
}

// clear kills all processes of a place, and removes its files and groups.
func (p place) clear() error {
	h, err := p.open()
	if err != nil {
		return err
	}
	defer h.Close()
	return p.clearWith(h)
}

// clearWith clears the place with the lab's host. It removes containers first, because the engine reports their end to
// the host.
func (p place) clearWith(h *host.Host) error {
	containers := p.clearContainers()
	err := h.Clear(context.Background())
	if err == nil {
		err = errline.Join(p.scratch().remove(), p.removeOverrides())
	}
	return errline.Join(containers, err)
}

// Close kills all processes of the lab and removes its files and groups.
func (l *Lab) Close() error {
	err := l.place.clearWith(l.host)
	if l.guard != nil {
		err = errline.Join(err, l.leash.Close(), l.guard.Wait())
	}
	return errline.Join(err, l.host.Close())
}

// ErrTooSmall means that the machine has too few CPUs for a setup.
var ErrTooSmall = errors.New("too few CPUs")

// Check returns ErrTooSmall if a setup needs more CPUs than the lab has. The error names the first such setup.
func (l *Lab) Check(setups []Setup) error {
	for i := range setups {
		s := &setups[i]
		if need, have := s.neededCPUs(), l.usable.Count(); need > have {
			return fmt.Errorf("%w for %v at a limit of %v: it needs %d, the machine has %d", ErrTooSmall, s, s.Limit, need, have)
		}
	}
	return nil
}

// reserve reserves the CPUs that a setup must not have, so that the lab's containers do not get them.
func (l *Lab) reserve(s *Setup) error {
	return l.host.SetOptions(host.NodeOptions{Reserved: l.reserved.Union(s.excludedCPUs(l.usable))})
}
