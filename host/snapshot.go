package host

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
)

// A Snapshot is the state as the last operation left it.
type Snapshot struct {
	Node   *hybrid.Node // the machine and its pools
	Grants []Grant      // in order of arrival, with what they have lost
	Now    time.Duration
	// Strays are groups, by name, in which programs run that the state knows nothing of: it
	// was removed, or lost. The next operation adopts them.
	Strays []string
	// Owner, if not "", is another state that the groups belong to.
	Owner string
}

// Snapshot reads the state. It takes no lock and changes nothing, so that
// everybody may look at any time.
func (h *Host) Snapshot() (*Snapshot, error) {
	loaded, err := h.store.load()
	var broken *brokenState
	if errors.As(err, &broken) {
		return nil, fmt.Errorf("%w: the next operation will rebuild it from what runs", err)
	}
	if err != nil {
		return nil, err
	}
	if boot, err := procfs.BootID(); err != nil || loaded.Boot != boot {
		loaded.Grants = nil
	}
	h.tops.learnFrom(loaded.Grants)
	s := &Snapshot{Grants: make([]Grant, len(loaded.Grants)), Now: sinceBoot()}
	for i, g := range loaded.Grants {
		s.Grants[i] = *g
	}
	err = outside(func() (err error) { s.Node, err = h.newNode(); return err })
	if err != nil {
		return nil, err
	}
	if err := s.restore(h.store.stateFile()); err != nil {
		return nil, err
	}
	return s, h.findStrays(s)
}

// findStrays looks for groups that are not in the state.
func (h *Host) findStrays(s *Snapshot) error {
	if h.isPlan {
		return nil // what runs is others' business
	}
	names, err := h.tree.Groups()
	if err != nil || len(names) == 0 {
		return err
	}
	if owner, err := h.tree.Owner(); err != nil || owner != "" && owner != h.store.dir {
		s.Owner = owner
		return err
	}
	for _, name := range names {
		if _, err := s.Grant(name); err == nil {
			continue
		}
		g := &group{Group: h.tree.Group(name)}
		if g.populated, err = g.Populated(); err != nil {
			continue // it went meanwhile
		}
		if runs, err := g.runsProgram(); err == nil && runs {
			s.Strays = append(s.Strays, name)
		}
	}
	return nil
}

// restore gives the grants to the node, and says what they have lost.
func (s *Snapshot) restore(file string) error {
	held := make([]hybrid.Grant, len(s.Grants))
	for i := range s.Grants {
		held[i] = s.Grants[i].Grant
	}
	if err := s.Node.Restore(held); err != nil {
		return fmt.Errorf("state %s: %w", file, err)
	}
	for i := range s.Grants {
		if now, ok := s.Node.Grant(s.Grants[i].ID); ok {
			s.Grants[i].Grant = now
		}
	}
	return nil
}

// Grant returns a container's grant.
func (s *Snapshot) Grant(name string) (*Grant, error) {
	for i := range s.Grants {
		if s.Grants[i].ID == name {
			return &s.Grants[i], nil
		}
	}
	if slices.Contains(s.Strays, name) {
		return nil, unknownSince(name, "it runs without a state; the next run, resize or release adopts it")
	}
	return nil, unknown(name)
}

// A Look is a container as the kernel has it.
type Look struct {
	Exists      bool
	Settings    cgroup.Settings
	Stat        cgroup.Stat
	Processes   []int
	Shown       cpuset.Set   // CPUs of its view; empty if it has none, or ShownErr says why they are unknown
	ShownErr    error        // fs.ErrNotExist: no view
	Unreadable  error        // why the group's files cannot be read, if they cannot
	Differences []Difference // from the grant
}

// Look reads a container's group. A group that does not exist is no error, and neither is one that cannot be read: other
// containers are still of interest.
func (h *Host) Look(of *Grant) *Look {
	look := new(Look)
	look.Shown, look.ShownErr = h.store.shown(of.ID)
	g := h.groupOf(of)
	var err error
	if look.Settings, err = g.Settings(); err == nil {
		look.Stat, err = g.Stat()
	}
	if err == nil {
		look.Processes, err = g.Processes()
	}
	if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) { // wholly or by half
		return look
	}
	look.Exists, look.Unreadable = true, err
	look.Differences = h.differences(of, look)
	return look
}
