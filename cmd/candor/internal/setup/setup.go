// Package setup confines foreign processes on this machine (services, users' sessions and engines without Candor) to the reserved
// CPUs. No container gets the reserved CPUs. The shared CPUs would not suit foreign processes, because these CPUs change with each
// container. On request, the package also forbids leases on files.
//
// Apply writes all former values to a record before the first change, so that Undo can restore them even if Apply was killed.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/errline"
)

// A Setup names the host, the cgroups and the files that the setup changes.
type Setup struct {
	Host   *host.Host
	Tree   *cgroup.Tree
	Config string // options file of the host; the record is in the same directory
	// DisableLeases makes Plan and Apply forbid leases on files too. Only then may the set of reserved CPUs be empty.
	DisableLeases bool
}

// Record is the name of the record's file.
const Record = "setup.json"

func (s *Setup) recordFile() string { return filepath.Join(filepath.Dir(s.Config), Record) }

// A Result lists the changes that were made or planned.
type Result struct {
	Reserved cpuset.Set           `json:"reserved"` // CPUs of foreign processes; empty: all CPUs
	Changes  []cgroup.Confinement `json:"changes"`
	Notes    []string             `json:"notes,omitempty"`
	DryRun   bool                 `json:"dryRun"`
}

// Reserved is the kind of a change of the host's option for reserved CPUs. All other changes are settings of the kernel.
const Reserved cgroup.ConfinementKind = "reserved"

// Sentinel errors. All other errors come from the system.
var (
	ErrBadCPUs = errors.New("bad reserved CPUs") // no change was made
	ErrInUse   = errors.New("reserved CPUs are in use")
)

// Plan returns the changes of Apply without making them. An empty keep selects the CPUs that are reserved already.
func (s *Setup) Plan(keep cpuset.Set) (Result, error) {
	p, err := s.plan(keep)
	if err != nil {
		return Result{}, err
	}
	return p.result(true), nil
}

// Apply confines foreign processes to the CPUs of keep, and reserves these CPUs. If a change fails, Apply undoes the changes
// before it.
func (s *Setup) Apply(keep cpuset.Set) (Result, error) {
	unlock, err := s.lock()
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	p, err := s.plan(keep)
	if err != nil {
		return Result{}, err
	}
	if p.nothing() {
		return p.result(false), nil
	}
	if err := p.apply(); err != nil {
		return Result{}, err
	}
	return p.result(false), nil
}

// A plan holds the planned changes, and the record before and after them.
type plan struct {
	*Setup
	options host.NodeOptions // current options of the host
	keep    cpuset.Set
	fences  []cgroup.Confinement // the field Before of each is the current value
	old     *record              // nil: there is none
	new     *record              // record with the planned changes; its former values are from before the first setup
}

func (s *Setup) plan(keep cpuset.Set) (*plan, error) {
	p := &plan{Setup: s, keep: keep}
	var err error
	if p.options, err = host.LoadOptions(s.Config); err != nil {
		return nil, err
	}
	if keep.IsEmpty() {
		p.keep = p.options.Reserved
	}
	machine, err := host.ReadMachine()
	if err != nil {
		return nil, err
	}
	all := machine.Online.Union(machine.Offline)
	if p.old, err = s.load(); err != nil {
		return nil, err
	}
	if s.DisableLeases {
		if p.fences, err = leaseFence(); err != nil {
			return nil, err
		}
	}
	if !s.DisableLeases || !p.keep.IsEmpty() {
		if err := p.planReserved(all); err != nil {
			return nil, err
		}
	}
	p.new, err = p.old.with(p.options.Reserved, p.keep, p.fences)
	if err == nil && p.old == nil {
		_, missing := os.Stat(s.Config)
		p.new.NoConfig = errors.Is(missing, fs.ErrNotExist)
	}
	return p, err
}

// planReserved plans the changes that confine foreign processes to the reserved CPUs.
func (p *plan) planReserved(all cpuset.Set) error {
	if err := check(p.keep, all); err != nil {
		return err
	}
	if err := p.checkFree(p.keep); err != nil {
		return err
	}
	fences, err := p.Tree.Confinements(p.keep, all)
	p.fences = append(p.fences, fences...)
	return err
}

// check returns an error if keep is empty, contains a CPU that the machine does not have, or contains all CPUs of the machine.
func check(keep, all cpuset.Set) error {
	switch {
	case keep.IsEmpty():
		return fmt.Errorf("%w: none: must be a list of the CPUs for everything else on the host, such as %d", ErrBadCPUs, all.First())
	case !keep.SubsetOf(&all):
		return fmt.Errorf("%w: the machine does not have %s; use some of %s", ErrBadCPUs, cputext.CPUs(keep.Minus(all)), all)
	case all == keep:
		return fmt.Errorf("%w: %s: these are all CPUs of the machine; leave at least 1 to Candor", ErrBadCPUs, keep)
	}
	return nil
}

// checkFree returns an error if a running container has any of the CPUs exclusively, because exclusive CPUs never move.
func (s *Setup) checkFree(keep cpuset.Set) error {
	now, err := s.Host.Snapshot()
	if err != nil {
		return err
	}
	if now.Owner != "" { // the containers belong to another state, so that Reconcile would not move them
		return s.Tree.Owned(now.Owner)
	}
	for _, g := range now.Grants {
		own := g.Exclusive.Union(g.Lost) // Lost contains the CPUs that have just been reserved
		if own.Overlaps(&keep) {
			return fmt.Errorf("%w: %s: running container %s has %s exclusively", ErrInUse, keep, g.ID, cputext.CPUs(own))
		}
	}
	return nil
}

func (p *plan) nothing() bool {
	return len(p.fences) == 0 && p.options.Reserved == p.keep
}

// apply writes the record, reserves the CPUs, moves containers away from these CPUs, and confines foreign processes to them. CPUs
// are reserved first so that no new container gets them meanwhile.
func (p *plan) apply() (err error) {
	if err := p.save(p.new); err != nil {
		return err
	}
	done := 0
	defer func() {
		if err != nil {
			err = errline.Join(err, p.rollBack(done))
		}
	}()
	reserved := p.options
	reserved.Reserved = p.keep
	if err := host.SaveOptions(p.Config, reserved); err != nil {
		return err
	}
	if err := p.checkFree(p.keep); err != nil { // a container can have started before the CPUs were reserved
		return err
	}
	if err := p.Host.Reconcile(context.Background()); err != nil {
		return err
	}
	for _, f := range p.fences {
		done++ // includes a confinement that failed half way
		if err := p.setFence(f, f.After); err != nil {
			return err
		}
	}
	return nil
}

// rollBack undoes the first confinements of the plan (done is their number), and restores the host's options. Changes that cannot be undone
// stay in the record.
func (p *plan) rollBack(done int) error {
	var errs []error
	for i := done - 1; i >= 0; i-- {
		if err := p.setFence(p.fences[i], p.fences[i].Before); err != nil {
			errs = append(errs, fmt.Errorf("cannot undo it either: %w", err))
		}
	}
	if err := p.restoreOptions(p.options, p.new.NoConfig); err != nil {
		errs = append(errs, fmt.Errorf("cannot undo it either: %w", err))
	}
	if len(errs) == 0 {
		return p.save(p.old)
	}
	return fmt.Errorf("%w; %s records the remaining changes, candor setup host --undo tries again", errline.Join(errs...), p.recordFile())
}

// restoreOptions writes the former options of the host. It removes the file if setup has created it (made) and no options are left.
func (s *Setup) restoreOptions(o host.NodeOptions, made bool) error {
	if made && o == (host.NodeOptions{}) {
		if err := os.Remove(s.Config); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return host.SaveOptions(s.Config, o)
}

func (p *plan) result(dry bool) Result {
	r := Result{Reserved: p.keep, DryRun: dry, Changes: []cgroup.Confinement{}}
	if p.options.Reserved != p.keep {
		r.Changes = append(r.Changes, cgroup.Confinement{Kind: Reserved, At: p.Config, Before: p.options.Reserved.String(), After: p.keep.String()})
	}
	r.Changes = append(r.Changes, p.fences...)
	if !p.keep.IsEmpty() {
		r.Notes = p.Tree.ConfinementCaveats()
	}
	return r
}
