package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/errline"
)

// Undo restores the former values in the record, the last change first. It does not restore a value that another program has changed
// since, but reports this value. If dry is true, it changes nothing. Values that cannot be restored stay in the record for another
// attempt.
func (s *Setup) Undo(dry bool) (Result, error) {
	if !dry {
		unlock, err := s.lock()
		if err != nil {
			return Result{}, err
		}
		defer unlock()
	}
	result := Result{DryRun: dry, Changes: []cgroup.Confinement{}}
	options, err := host.LoadOptions(s.Config)
	if err != nil {
		return result, err
	}
	result.Reserved = options.Reserved
	r, err := s.load()
	if err != nil || r == nil {
		result.Notes = []string{"this machine is not set up: there is nothing to undo"}
		return result, err
	}
	failed, err := s.undoFences(r, dry, &result)
	if options.Reserved == r.Reserved {
		result.Reserved = r.Before
	} else if options.Reserved != r.Before {
		result.Notes = append(result.Notes, fmt.Sprintf("not restored, since it was changed after the setup: reserved %s", cputext.CPUs(options.Reserved)))
	}
	if result.Reserved != options.Reserved {
		result.Changes = append(result.Changes, cgroup.Confinement{Kind: Reserved, At: s.Config, Before: options.Reserved.String(), After: r.Before.String()})
	}
	if dry {
		return result, err
	}
	options.Reserved = result.Reserved
	if err = errline.Join(err, s.restoreOptions(options, r.NoConfig)); err != nil {
		r.Fences = failed
		return result, errline.Join(err, s.save(r))
	}
	if err := s.save(nil); err != nil {
		return result, err
	}
	if err := s.Host.Reconcile(context.Background()); !errors.Is(err, host.ErrGivingBack) { // gives the CPUs to the flexible containers
		return result, err
	}
	return result, nil
}

// undoFences restores the former values of the record's confinements. It returns the confinements whose values it could not restore,
// in the order of the record.
func (s *Setup) undoFences(r *record, dry bool, result *Result) (failed []cgroup.Confinement, err error) {
	for _, f := range slices.Backward(r.Fences) {
		now, readErr := s.readFence(f)
		switch {
		case readErr != nil:
		case now == f.Before && f.Kind != cgroup.ConfineProcesses:
			continue
		case now != f.After && now != f.Before:
			result.Notes = append(result.Notes, fmt.Sprintf("not restored, because another process has changed it: %s of %s is %q", f.Kind, f.At, now))
			continue
		}
		back := cgroup.Confinement{Kind: f.Kind, At: f.At, Before: now, After: f.Before}
		if readErr == nil && !dry {
			readErr = s.setFence(f, f.Before)
		}
		if readErr != nil {
			failed = slices.Insert(failed, 0, f)
			err = errline.Join(err, readErr)
			continue
		}
		if back.Before != back.After {
			result.Changes = append(result.Changes, back)
		}
	}
	return failed, err
}
