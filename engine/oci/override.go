package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/spec"
)

// An Override sets the host and the allocation of a container that an engine has created but not started yet. It replaces the
// settings of the container's configuration and image; experiments use it. An override is a file with Candor's name of the
// container. Its directory is writable by root only, so an image cannot create an override.
type Override struct {
	StateDir string         `json:"stateDir"` // of the host
	Config   string         `json:"config"`
	Parent   string         `json:"parent"` // parent cgroup, created without systemd
	Request  hybrid.Request `json:"request"`
	Spec     spec.Spec      `json:"spec"`

	Applied bool         `json:"taken"` // the container was created with this override
	Usage   cgroup.Usage `json:"usage"` // CPU use of the container at its deletion
}

// bookingsSuffix is the suffix of the directory of overrides beside the state directory.
const bookingsSuffix = ".booked"

// Overrides returns the directory of a host's overrides. Removing the directory removes all overrides. The wrapper reads the
// overrides of all hosts whose state directory has the same parent as the default state directory. The wrapper does not know the
// state directory of the host that wrote an override, because some engines pass no environment to the wrapper.
func Overrides(stateDir string) string { return stateDir + bookingsSuffix }

// OverriddenName returns Candor's name of an engine's container.
func OverriddenName(id string) string { return (&Call{ID: id}).Name() }

func (b *Override) file() string { return filepath.Join(Overrides(b.StateDir), b.Request.ID) }

// Save writes the file of the override.
func (b *Override) Save() error {
	text, err := json.Marshal(b)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(b.file()), 0o700)
	}
	if err == nil {
		err = renameio.WriteFile(b.file(), text, 0o600)
	}
	return err
}

// Reload reads the override again. Applied and Usage can have changed.
func (b *Override) Reload() error {
	now, err := readOverride(b.file())
	if err == nil {
		*b = *now
	}
	return err
}

// Remove removes the file of the override.
func (b *Override) Remove() error {
	if err := os.Remove(b.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

const maxBooking = 1 << 20 // bytes

func readOverride(file string) (*Override, error) {
	text, err := fileio.ReadNoLink(file, maxBooking)
	if err != nil {
		return nil, fmt.Errorf("override: %w", err)
	}
	b := new(Override)
	if err := fileio.DecodeStrict(text, b); err != nil {
		return nil, fmt.Errorf("override %s: %w", file, err)
	}
	if b.file() != file {
		return nil, fmt.Errorf("override %s: belongs to state directory %s and container %.80q; remove it", file, b.StateDir, b.Request.ID)
	}
	return b, nil
}

// overrideFor returns the override of a container, or nil if it has none.
func overrideFor(name string) (*Override, error) {
	if cgroup.CheckName(name) != nil {
		return nil, nil //nolint:nilerr // an override has the name of a container of Candor
	}
	folders, err := filepath.Glob(filepath.Join(filepath.Dir(host.DefaultStateDir()), "*"+bookingsSuffix))
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		b, err := readOverride(filepath.Join(folder, name))
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // an override of another user does not apply
			return b, err
		}
	}
	return nil, nil
}

// wrapper returns a copy of w with the state directory, the configuration and the parent group of the override.
func (b *Override) wrapper(w *Wrapper) *Wrapper {
	there := *w
	there.Host = host.Options{StateDir: b.StateDir, Config: b.Config, Cgroup: cgroup.Options{Parent: b.Parent, Driver: cgroup.Cgroupfs},
		OnEnd: RecordUsage(b.StateDir)}
	return &there
}

// RecordUsage returns a function for host.Options.OnEnd that records the CPU use of containers in the overrides of a host.
// OnEnd is necessary because any operation that finds the end of a container removes the container's cgroup.
func RecordUsage(stateDir string) func(name string, used cgroup.Usage) {
	return func(name string, used cgroup.Usage) {
		b, err := readOverride(filepath.Join(Overrides(stateDir), name))
		if err == nil {
			_ = b.recordUsage(used) // on an error, the use stays 0 (unknown)
		}
	}
}

// recordUsage records the CPU use of the container, unless a higher use is recorded already. used is 0 if the cgroup has been
// removed.
func (b *Override) recordUsage(used cgroup.Usage) error {
	if err := b.Reload(); err != nil || used.CPU <= b.Usage.CPU {
		return err
	}
	b.Usage = used
	return b.Save()
}

// create creates the container of an override.
func (b *Override) create(w *Wrapper, c *Call, real string, cfg *config) (code int, err error) {
	b.Applied = true
	if err := b.Save(); err != nil {
		return 0, errline.Named(c.Name(), err)
	}
	memory, err := memoryIn(cfg.resources)
	if err != nil {
		return 0, errline.Named(c.Name(), err)
	}
	a := host.Allocation{Request: b.Request, Spec: b.Spec, Memory: memory}
	return b.wrapper(w).place(c.withoutSystemd(), real, cfg, request{Allocation: a})
}

// withoutSystemd returns the command line without the option for the systemd cgroup driver. Later commands need no change,
// because the real runtime records the driver of each container.
func (c *Call) withoutSystemd() *Call {
	var args []string
	for rest := c.Args[:c.globals]; len(rest) > 0; {
		o, n := nextOption(rest, globalValues)
		if !slices.Contains([]string{"systemd-cgroup", "cgroup-manager"}, o.name) {
			args = append(args, rest[:n]...)
		}
		rest = rest[n:]
	}
	without := Parse(append(args, c.Args[c.globals:]...))
	return &without
}

// recordUsage records the CPU use of a container that is about to be deleted with its cgroup. It then removes the bundle, so
// that package host does not retain the container's CPUs for a restart.
func (w *Wrapper) recordUsage(c *Call) error {
	b, err := overrideFor(c.Name())
	if err != nil || b == nil {
		return err
	}
	h, err := b.wrapper(w).open(c)
	if err != nil {
		return err
	}
	defer h.Close()
	s, err := h.Snapshot()
	if err != nil {
		return err
	}
	g, err := s.Grant(b.Request.ID)
	if err != nil {
		return err
	}
	reading, err := h.ReadUsage(g)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // its processes have ended
		return err
	}
	if err := b.recordUsage(reading.Usage); err != nil {
		return err
	}
	return bundle(h.BundleDir(b.Request.ID)).remove()
}
