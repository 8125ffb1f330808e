// Package host holds the state of this machine: which container has which
// CPUs. Every frontend (candor run, an OCI runtime wrapper, an NRI plugin) goes through it.
//
// There is no daemon. An operation takes a file lock, loads the state, compares
// it with the kernel, plans (package hybrid), applies the plan (packages cgroup and
// view), saves the state and unlocks. One plan is one replacement of one
// file. If a process is killed at any point, the next operation repairs the
// difference: the file has the last decision, the kernel
// has the running containers, and each operation ends with both equal. An operation for a container of a pod
// reads the groups of other containers only as far as it needs to (glance.go); Reconcile reads all.
//
// # Failure isolation
//
// An operation for a container needs two things:
//
//	(a) the other containers are off its exclusive CPUs
//	(b) its own settings are written
//
// Only a failure of (a) or (b) refuses the container. If (a) fails for another container, whose cpuset
// cannot shrink, the operation is planned again without the CPUs of that container (avoid.go), and refused only if no
// other CPUs fit; the refusal names the other container. A view, weight, quota, burst, memory nodes or CPUs of another container that cannot
// be written or read are recorded as degraded (degraded.go): logged once, retried with growing pauses, shown
// by ps, inspect and the metrics. They never undo the operation. The state file does not hold them:
// each process finds them by comparing the kernel with the grants.
//
// Files of a view are opened without waiting. A process in a container can hold a lease, a lock or a
// thousand descriptors on its view: it can delay its own view only. See viewfiles.go.
package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
)

// Options say where things are. The zero value is right for a normal machine.
type Options struct {
	StateDir    string // default: DefaultStateDir()
	Config      string // default: DefaultConfig
	Cgroup      cgroup.Options
	Log         *slog.Logger  // what was reaped, adopted, repaired; default: slog.Default()
	LockTimeout time.Duration // how long to wait for the lock; default 1 min
	// PlanOnly keeps a state of what would be: nothing else is written, no group and no view.
	PlanOnly bool
	// TellsLater leaves it to TellUnits, which is running, to tell systemd what containers have been given.
	DeferUnitUpdates bool
	// HoldViews keeps the files of all views open, so that no process in a container can take a lease on them: for a process that stays.
	HoldViews bool
	// Ended, if not nil, is called with the final CPU usage of a container of Candor's own group, before an operation removes it.
	OnEnd       func(name string, used cgroup.Usage)
	OnOperation func(Report) // is told of every operation, most often while that has the lock: it may not wait, and may be called by several; default: nobody
}

// A Host is this machine. It holds nothing open but, with systemd, a connection.
type Host struct {
	store      state.Store
	config     string
	tree       *cgroup.Tree
	log        *slog.Logger
	patience   time.Duration
	listener   func(Report)
	ended      func(string, cgroup.Usage)
	machine    machineCache
	options    optionsCache
	tops       topGroups
	left       atomic.Pointer[leftover] // of the last operation
	units      pendingUnits
	tellsLater bool     // somebody calls TellUnits
	podsSeen   sync.Map // what Glance said of the pods' groups that have what they are to have, by their paths
	degraded   degradedSettings
	views      openViews
	planOnly   bool // nothing becomes true but the state
	isPlan     bool // the state says what would be
}

// DefaultStateDir is /run/candor, for users other than root the same in their
// own runtime directory. Both go at a reboot, as cgroups do.
func DefaultStateDir() string {
	if user := os.Getenv("XDG_RUNTIME_DIR"); os.Geteuid() != 0 && filepath.IsAbs(user) {
		return filepath.Join(user, "candor")
	}
	return "/run/candor"
}

// Open finds the control groups and the state. It changes nothing, but for the directory of a plan; with
// Cgroup.ReadOnly set, no group is made, so no program can be started.
func Open(o Options) (*Host, error) {
	dir, err := realPath(cmp.Or(o.StateDir, DefaultStateDir()))
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	o.Cgroup.Owner = dir
	groups := o.Cgroup
	groups.ReadOnly = groups.ReadOnly || o.PlanOnly
	tree, err := cgroup.Open(groups)
	if err != nil {
		return nil, err
	}
	h := &Host{
		store:      state.NewStore(dir),
		config:     cmp.Or(o.Config, DefaultConfig),
		tree:       tree,
		log:        o.Log,
		patience:   cmp.Or(o.LockTimeout, time.Minute),
		listener:   o.OnOperation,
		ended:      o.OnEnd,
		units:      pendingUnits{some: make(chan struct{}, 1)},
		tellsLater: o.DeferUnitUpdates,
		views:      openViews{isAll: o.HoldViews && !o.PlanOnly},
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	if h.listener == nil {
		h.listener = func(Report) {}
	}
	if err := h.setPlanOnly(o.PlanOnly); err != nil {
		tree.Close()
		return nil, err
	}
	return h, nil
}

// realPath returns the one path of a directory that may not be there yet, by
// which it is known as the owner of groups.
func realPath(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return dir, nil // to make it will be refused
	}
	return filepath.Join(above, filepath.Base(dir)), nil
}

// Close ends what the host holds open.
func (h *Host) Close() error { return h.tree.Close() }

// Logger returns the logger of the host.
func (h *Host) Logger() *slog.Logger { return h.log }

// OwnGroup returns the group of a container in Candor's own cgroup, which need not exist.
func (h *Host) OwnGroup(name string) *cgroup.Group { return h.tree.Group(name) }

// newNode returns the machine's node without containers.
func (h *Host) newNode() (*hybrid.Node, error) {
	b, err := h.basis()
	if err != nil {
		return nil, err
	}
	return b.node(h.config)
}

// nodeWith is newNode by other options than the machine's.
func (h *Host) nodeWith(options NodeOptions) (*hybrid.Node, error) {
	b, err := h.basisWith(options)
	if err != nil {
		return nil, err
	}
	return b.node(h.config)
}

// Clear kills the programs in this host's own groups, and removes the groups, their parent and the
// state directory: for a host that was there for a time, as that of an experiment. Containers of engines are
// left alone.
func (h *Host) Clear(ctx context.Context) error {
	if _, err := os.Stat(h.store.Dir); os.IsNotExist(err) {
		return h.tree.Remove()
	}
	lock, err := takeLock(ctx, h.store.LockFile(), h.patience)
	if err != nil {
		return err
	}
	defer lock.release()
	names, err := h.tree.Groups()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, h.tree.Group(name).End())
	}
	if err := errline.Join(append(errs, h.tree.Remove())...); err != nil {
		return err
	}
	return os.RemoveAll(h.store.Dir)
}

// KeepOpen has this process keep lists of CPUs of containers' groups open, so many at most: for one that runs on, and calls CloseUnused
// now and then.
func (*Host) KeepOpen(most int) { cgroup.KeepOpen(most) }

// CloseUnused closes those that are not read any more.
func (*Host) CloseUnused() { cgroup.CloseUnused() }
