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
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/spec"
)

// A Override is for a container that an engine has created and not started yet: it says of which host it is to be, such as that of
// an experiment, and what it gets there. Then that counts, and not what its configuration and its image ask for. It is a file in a
// place where root alone can write, for a container that its id names: an image cannot book.
type Override struct {
	StateDir string         `json:"stateDir"` // of the host
	Config   string         `json:"config"`
	Parent   string         `json:"parent"` // group, made without systemd
	Request  hybrid.Request `json:"request"`
	Spec     spec.Spec      `json:"spec"`

	Applied bool         `json:"taken"` // the container was made so
	Usage   cgroup.Usage `json:"usage"` // what it had used when it was deleted
}

// bookingsSuffix is what the folder of a host's bookings is called, beside its state.
const bookingsSuffix = ".booked"

// Overrides is the folder of a host's bookings. Who removes it takes them all back. The wrapper looks beside the usual state
// directory, whatever the engine has told it: some engines pass no environment on.
func Overrides(stateDir string) string { return stateDir + bookingsSuffix }

// OverriddenName is what Candor calls an engine's container.
func OverriddenName(id string) string { return (&Call{ID: id}).Name() }

func (b *Override) file() string { return filepath.Join(Overrides(b.StateDir), b.Request.ID) }

// Save writes a booking.
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

// Reload reads what has become of it.
func (b *Override) Reload() error {
	now, err := readBooking(b.file())
	if err == nil {
		*b = *now
	}
	return err
}

// Remove takes it back.
func (b *Override) Remove() error {
	if err := os.Remove(b.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

const maxBooking = 1 << 20 // bytes

func readBooking(file string) (*Override, error) {
	text, err := fileio.ReadNoLink(file, maxBooking)
	if err != nil {
		return nil, fmt.Errorf("booking: %w", err)
	}
	b := new(Override)
	if err := fileio.DecodeStrict(text, b); err != nil {
		return nil, fmt.Errorf("booking %s: %w", file, err)
	}
	if b.file() != file {
		return nil, fmt.Errorf("booking %s: it is one of %s for %.80q", file, b.StateDir, b.Request.ID)
	}
	return b, nil
}

// booked returns the booking of a container; nil if it has none.
func booked(name string) (*Override, error) {
	if cgroup.CheckName(name) != nil {
		return nil, nil
	}
	folders, err := filepath.Glob(filepath.Join(filepath.Dir(host.DefaultStateDir()), "*"+bookingsSuffix))
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		b, err := readBooking(filepath.Join(folder, name))
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // what another user has booked is not for ours
			return b, err
		}
	}
	return nil, nil
}

// on is the wrapper on the host of a booking.
func (b *Override) on(w *Wrapper) *Wrapper {
	there := *w
	there.Host = host.Options{StateDir: b.StateDir, Config: b.Config, Cgroup: cgroup.Options{Parent: b.Parent, Driver: cgroup.Cgroupfs},
		OnEnd: NoteUsage(b.StateDir)}
	return &there
}

// NoteUsage returns what writes into the bookings of a host what containers had used: for host.Options.Ended, since whatever operation
// finds that a container has ended removes its group.
func NoteUsage(stateDir string) func(name string, used cgroup.Usage) {
	return func(name string, used cgroup.Usage) {
		b, err := readBooking(filepath.Join(Overrides(stateDir), name))
		if err == nil {
			_ = b.note(used) // what is not known is 0
		}
	}
}

// note writes down what the container has used, unless somebody has who came later: its group may be gone by now, and tell nothing.
func (b *Override) note(used cgroup.Usage) error {
	if err := b.Reload(); err != nil || used.CPU <= b.Usage.CPU {
		return err
	}
	b.Usage = used
	return b.Save()
}

// create makes the container of a booking.
func (b *Override) create(w *Wrapper, c *Call, real string, cfg *config) (code int, err error) {
	b.Applied = true
	if err := b.Save(); err != nil {
		return 0, named(c.Name(), err)
	}
	return b.on(w).place(c.withoutSystemd(), real, cfg, request{Allocation: host.Allocation{Request: b.Request, Spec: b.Spec}})
}

// withoutSystemd is the command line without the option that has systemd make the groups. The real runtime remembers of each
// container how its group was made.
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

// noteUsage writes into the booking of a container that is about to be deleted what it has used: its group goes with it. Its bundle goes
// first, so that its place is not kept for a restart.
func (w *Wrapper) noteUsage(c *Call) error {
	b, err := booked(c.Name())
	if err != nil || b == nil {
		return err
	}
	h, err := b.on(w).open(c)
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
	if err := b.note(reading.Usage); err != nil {
		return err
	}
	return bundle(h.BundleDir(b.Request.ID)).remove()
}
