package state

import (
	"os"
	"path/filepath"
)

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
