// Package host manages the CPUs of the containers on this machine. Every frontend uses it: candor run, the OCI runtime
// wrapper and the NRI plugin. A [Host] is the entry point; [Host.Allocate], [Host.Admit], [Host.Resize] and
// [Host.Release] change grants, and [Host.Snapshot] reads them.
//
// There is no daemon. An operation takes a file lock, loads the state (package state) and compares it with the kernel. It plans
// (package hybrid), applies the plan (packages cgroup and view), saves the state and releases the lock. To save the state, it
// replaces a single file. If a process is killed at any point, the file and the cgroups can differ, and the next operation
// repairs the difference. An operation for a container of a pod reads the cgroups of other containers only as far as needed
// (observe.go). [Host.Reconcile] reads all cgroups.
//
// # Failure isolation
//
// An operation for a container needs two things:
//
//	(a) the other containers are off its exclusive CPUs
//	(b) its own settings are written
//
// Only a failure of (a) or (b) refuses the container. If (a) fails because the cpuset of another container cannot
// shrink, the operation plans again without the CPUs of that container (stuck.go). If no other CPUs fit, the operation
// fails, and its error names the container whose cpuset cannot shrink.
//
// Some settings of another container can fail without consequence for the operation: its view, weight, quota, burst,
// memory nodes or CPUs. Such a failure is recorded as degraded (degraded.go). Candor logs it once, retries it with
// growing pauses, and shows it in ps, inspect and the metrics. Such a failure never undoes the operation. The state
// file does not hold degraded settings: each process finds them by comparing the kernel with the grants.
//
// The files of a view are opened without waiting. A process in a container can hold a lease, a lock or a thousand
// descriptors on its view, but it can delay only its own view (viewfiles.go).
//
// The package does not start programs (package launch) and does not talk to container engines (packages engine/nri and
// engine/oci).
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

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
)

// Options configure a Host. The zero value is right for a normal machine.
type Options struct {
	StateDir    string // default: DefaultStateDir()
	Config      string // default: DefaultConfig
	Cgroup      cgroup.Options
	Log         *slog.Logger  // receives messages, for example about reaped containers; default: slog.Default()
	LockTimeout time.Duration // how long to wait for the lock; default 1 min
	// PlanOnly maintains a state of planned grants only. The host writes no cgroup and no view.
	PlanOnly bool
	// DeferUnitUpdates leaves updates of systemd unit properties to a running UpdateUnits loop.
	DeferUnitUpdates bool
	// HoldViews holds the files of all views open, so that no process in a container can take a lease on them. It is
	// meant for processes that run for a long time.
	HoldViews bool
	// OnEnd, if non-nil, is called with the final CPU usage of a container in Candor's own cgroup, just before that
	// cgroup is removed.
	OnEnd func(name string, used cgroup.Usage)
	// OnOperation, if non-nil, receives the Report of every operation, usually while the operation holds the lock. It
	// must not block, and several goroutines can call it at once.
	OnOperation func(Report)
}

// A Host manages the containers of this machine. Its methods are safe for concurrent use. It holds a D-Bus connection if systemd
// is the cgroup driver, and open files with HoldViews and KeepOpen.
type Host struct {
	store             state.Store
	config            string
	tree              *cgroup.Tree
	log               *slog.Logger
	lockTimeout       time.Duration
	listener          func(Report)
	onEnd             func(string, cgroup.Usage)
	machine           machineCache
	options           optionsCache
	tops              topGroups
	cache             atomic.Pointer[operationCache] // result of the last operation
	units             pendingUnits
	defersUnitUpdates bool     // an UpdateUnits loop runs
	podFingerprints   sync.Map // path of a pod's cgroup that needed no write -> its fingerprint (cgroup.Group.Fingerprint)
	degraded          degradedSettings
	views             openViews
	planOnly          bool // operations write the state only
	isPlan            bool // the state holds planned grants
}

// SystemStateDir is the default state directory of root, and of candor nri.
const SystemStateDir = "/run/candor"

// DefaultStateDir returns SystemStateDir for root, and candor in $XDG_RUNTIME_DIR for other users. A reboot removes both
// directories, as it removes cgroups.
func DefaultStateDir() string {
	if user := os.Getenv("XDG_RUNTIME_DIR"); os.Geteuid() != 0 && filepath.IsAbs(user) {
		return filepath.Join(user, "candor")
	}
	return SystemStateDir
}

// IsSameStateDir reports whether two paths lead to the same state directory. The directory can be missing.
func IsSameStateDir(a, b string) bool {
	realA, errA := realPath(a)
	realB, errB := realPath(b)
	return errA == nil && errB == nil && realA == realB
}

// Open finds the cgroups and the state. It changes nothing, except that it creates the directory of a plan (PlanOnly). With
// Cgroup.ReadOnly, Open does not check that this process can create cgroups.
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
		store:             state.NewStore(dir),
		config:            cmp.Or(o.Config, DefaultConfig),
		tree:              tree,
		log:               o.Log,
		lockTimeout:       cmp.Or(o.LockTimeout, time.Minute),
		listener:          o.OnOperation,
		onEnd:             o.OnEnd,
		units:             pendingUnits{ready: make(chan struct{}, 1)},
		defersUnitUpdates: o.DeferUnitUpdates,
		views:             openViews{isAll: o.HoldViews && !o.PlanOnly},
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

// realPath returns the canonical path of a directory that need not exist yet. Candor's parent cgroup records this path
// as the owner of the cgroups.
func realPath(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return dir, nil //nolint:nilerr // Prepare refuses to create it
	}
	return filepath.Join(above, filepath.Base(dir)), nil
}

// Close closes the connections and files that the host holds open.
func (h *Host) Close() error { return h.tree.Close() }

// Logger returns the logger of the host.
func (h *Host) Logger() *slog.Logger { return h.log }

// OwnGroup returns the cgroup of a container below Candor's parent cgroup. The cgroup need not exist.
func (h *Host) OwnGroup(name string) *cgroup.Group { return h.tree.Group(name) }

// newNode returns a node with the CPUs and options of this machine, without containers.
func (h *Host) newNode() (*hybrid.Node, error) {
	b, err := h.basis()
	if err != nil {
		return nil, err
	}
	return b.node(h.config)
}

// nodeWith returns a node without containers, with the given options instead of the machine's options.
func (h *Host) nodeWith(options NodeOptions) (*hybrid.Node, error) {
	b, err := h.basisWith(options)
	if err != nil {
		return nil, err
	}
	return b.node(h.config)
}

// Clear kills the programs in this host's own cgroups. It then removes the cgroups, their parent and the state
// directory. Clear is for temporary hosts, such as those of experiments, and does not change containers of engines.
func (h *Host) Clear(ctx context.Context) error {
	if _, err := os.Stat(h.store.Dir); os.IsNotExist(err) {
		return h.tree.Remove()
	}
	lock, err := takeLock(ctx, h.store.LockFile(), h.lockTimeout)
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

// KeepOpen lets this process hold at most limit files with the CPU lists of cgroups open, and up to half as many files with the
// memory of cgroups (at most 1024). It is meant for processes that run for a long time and call CloseUnused regularly.
func (h *Host) KeepOpen(limit int) {
	const maxMemoryFiles = 1024 // those of about 100 views that programs read
	h.tree.KeepOpen(limit)
	h.tree.KeepMemoryOpen(min(limit/2, maxMemoryFiles))
}

// MaxOpenFiles returns the number of files for KeepOpen. It is half of the number of files that this process can open, but at most the
// number that hundreds of containers and their pods need. The kernel uses 4 to 5 KB for each.
func MaxOpenFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur/2, 2048))
}

// CloseUnused closes the files of KeepOpen that were read neither since the previous call of CloseUnused, nor between that call and the
// call before it.
func (h *Host) CloseUnused() { h.tree.CloseUnused() }

// Aliases of the types of package state that operations take and return.
type (
	// Grant is the grant of a container.
	Grant = state.Grant
	// Engine describes the container of a container engine that has a grant. The zero value stands for a container of candor run.
	Engine = state.Engine
	// Process identifies a process, even after another process has got its PID.
	Process = state.Process
)

// The phases of a grant.
const (
	Pending = state.Pending
	Running = state.Running
	Held    = state.Held
)
