// Package state stores the grants of a machine in a directory, usually /run/candor.
//
// A [Store] is that directory. [Store.Load] returns the [Saved] state, whose [Grant] values hold the CPUs, settings and
// processes of the containers. [Saved.Next] and [Store.Save] replace the state file as a whole, so that a crash leaves
// either the old or the new state. A [Process] identifies a process across the reuse of pids, and a [Lease] permits a
// process to change a quota for a short time.
//
// The package does not lock the directory and does not read cgroups; package host does. The package reads states of the
// previous file versions, and refuses states of later versions and states with an unknown [Feature].
package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/view"
)

// A Store is the directory that holds the state of this machine:
//
//	lock            locked by every operation
//	state.json      all grants; an operation that changes them replaces this file
//	state.json.bad  the last state that could not be read
//	requests/NAME   the request of a container, for adoption after the state is lost
//	commands/NAME   the command of --on-resize, mode 0600
//	engine-requests/NAME  the settings that the container's engine requested, if the grant does not determine them
//	engine-names.json     names that engines have given to the containers in Candor's cgroups
//	weight-scales.json    how the runtimes convert cpu.shares to cpu.weight
//	agent           locked by candor nri while it runs, and by candor uninstall
//	giving-back     marks a state whose containers are being given back
//	views/NAME/     the files of a container's view
//	preserved/NAME  CPUs of a container that Candor does not manage
//	bundles/NAME/   the bundle that an OCI runtime reads instead of the engine's bundle
//	kept/NAME       the former CPUs of a container that an OCI runtime has just deleted
type Store struct {
	Dir   string
	cache *cache
}

// NewStore returns the store in a directory. It reads and creates nothing.
func NewStore(dir string) Store { return Store{dir, newCache()} }

// LockFile returns the path of the lock of the state.
func (s Store) LockFile() string { return filepath.Join(s.Dir, "lock") }

// File returns the path of the state file.
func (s Store) File() string { return filepath.Join(s.Dir, "state.json") }

// BadFile returns the path to which a broken state file is moved.
func (s Store) BadFile() string { return s.File() + ".bad" }

// ViewDir returns the directory with the view of a container.
func (s Store) ViewDir(name string) string { return filepath.Join(s.ViewsDir(), name) }

// ViewsDir returns the directory with the directories of all views.
func (s Store) ViewsDir() string { return filepath.Join(s.Dir, "views") }

// RequestFile returns the path of a container's request.
func (s Store) RequestFile(name string) string { return filepath.Join(s.Dir, "requests", name) }

// A BrokenError means that a state file cannot be used.
type BrokenError struct {
	File string
	Err  error
}

func (e *BrokenError) Error() string { return fmt.Sprintf("state %s: %v", e.File, e.Err) }
func (e *BrokenError) Unwrap() error { return e.Err }

// ErrBadDir means that the caller has chosen a directory that cannot hold the state.
var ErrBadDir = errors.New("state directory")

// Prepare creates the directories. Existing directories must belong to the caller and be writable only by the caller,
// because candor runs commands from their files as root.
func (s Store) Prepare() error {
	for _, dir := range []string{s.Dir, filepath.Join(s.Dir, "views"), filepath.Join(s.Dir, "requests")} {
		var stat unix.Stat_t
		err := unix.Lstat(dir, &stat) // usually the directory exists, and Lstat is cheaper than Mkdir
		if errors.Is(err, fs.ErrNotExist) {
			if err = fileio.MakeDir(dir); err == nil {
				err = unix.Lstat(dir, &stat)
			}
		}
		if err != nil {
			return badDir(dir, err)
		}
		switch {
		case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
			return badDir(dir, unix.ENOTDIR)
		case int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0:
			return fmt.Errorf("%w %s: belongs to user %d with mode %o; use a directory that belongs to you and that only you can write",
				ErrBadDir, dir, stat.Uid, stat.Mode&0o7777)
		}
	}
	return nil
}

// badDir returns ErrBadDir if the caller has named a wrong directory, and a plain error if the machine fails to
// provide it.
func badDir(dir string, err error) error {
	err = errline.Cause(err)
	for _, slip := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.EACCES} {
		if errors.Is(err, slip) {
			return fmt.Errorf("%w %s: %w; use a directory of your own, or a new name in an existing directory", ErrBadDir, dir, err)
		}
	}
	return fmt.Errorf("state directory %s: %w", dir, err)
}

// Load reads the state, which the caller must not change. A missing file gives an empty state. The error is a
// *BrokenError for an unusable file and ErrNewer for the state of a later version.
func (s Store) Load() (*Saved, error) {
	if last := s.cache.lastAt(s.File()); last != nil {
		return last, nil
	}
	data, err := fileio.ReadNoLink(s.File(), MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return new(Saved), nil
	}
	if errors.As(err, new(*fileio.TooLongError)) {
		return nil, &BrokenError{s.File(), err}
	}
	if errors.Is(err, unix.ENOTDIR) {
		return nil, badDir(s.Dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	last := s.cache.last.Load()
	if len(data) > 0 && bytes.Equal(last.text, data) {
		return last, nil
	}
	loaded, err := decodeState(data)
	if errors.Is(err, ErrNewer) {
		return nil, fmt.Errorf("state %s: %w: use the newer version, or remove the file when no container runs", s.File(), err)
	}
	if err != nil {
		return nil, &BrokenError{s.File(), err}
	}
	s.addEngineNames(loaded.Grants)
	next := &Saved{State: loaded, text: data}
	s.cache.replace(last, next)
	return next, nil
}

// Save replaces the state file. On an error the old file remains.
func (s Store) Save(next *Saved) error {
	text := next.Encode()
	if len(text) > MaxSize {
		return fmt.Errorf("state %s: %d bytes, more than %d: too many containers", s.File(), len(text), MaxSize)
	}
	_ = s.saveEngineNames(next.Grants) // only for display: a failure must not refuse an operation, and the next Save tries again
	file, err := fileio.ReplaceOpen(s.File(), text)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	next.keepOpen(file)
	s.cache.replace(s.cache.last.Load(), next)
	return nil
}

// SetAside renames an unusable state file. It makes the file readable only by its owner, because an earlier version can have
// written program arguments to it.
func (s Store) SetAside() error {
	err := os.Rename(s.File(), s.BadFile())
	if err == nil {
		err = s.ProtectBadFile()
	}
	if err != nil {
		return fmt.Errorf("state: set the unusable file aside: %w", err)
	}
	return nil
}

// ProtectBadFile makes the unusable state file readable only by its owner.
func (s Store) ProtectBadFile() error {
	info, err := os.Lstat(s.BadFile())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err == nil {
		err = os.Chmod(s.BadFile(), 0o600)
	}
	return err
}

// SaveRequest writes the request file of a container.
func (s Store) SaveRequest(g *Grant) error {
	if err := fileio.Replace(s.RequestFile(g.ID), encodeLabel(g)); err != nil {
		return fmt.Errorf("request of %s: %w", g.ID, err)
	}
	return nil
}

// LoadRequest reads the request file of a container into g. known is false if there is no readable request file.
func (s Store) LoadRequest(g *Grant) (known bool) {
	data, err := fileio.ReadNoLink(s.RequestFile(g.ID), 1<<16)
	if err != nil || decodeLabel(data, g) != nil {
		return false
	}
	s.addEngineNames([]*Grant{g})
	return true
}

// ShownCPUs returns the CPUs that a container's view shows. The error is fs.ErrNotExist if it has no view.
func (s Store) ShownCPUs(name string) (cpuset.Set, error) { return view.ReadCPUs(s.ViewDir(name)) }

// RemoveFiles removes the files of a container that has ended.
func (s Store) RemoveFiles(name string) error {
	for _, file := range []string{s.RequestFile(name), s.commandFile(name), s.engineRequestFile(name)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return view.Remove(s.ViewDir(name))
}

// PlanOptionsFile returns the file with the options of a host that only plans. The file also marks the state as a
// plan.
func (s Store) PlanOptionsFile() string { return filepath.Join(s.Dir, "plan-options.json") }

// IsPlan reports whether the state is a plan.
func (s Store) IsPlan() bool { return isThere(s.PlanOptionsFile()) }

// IsInUse reports whether the directory belongs to a state that is no plan. The state file need not exist yet.
func (s Store) IsInUse() bool {
	return !s.IsPlan() && (isThere(s.LockFile()) || isThere(s.File()))
}

func isThere(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}
