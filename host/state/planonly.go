package state

import (
	"os"
	"path/filepath"
)

// PlanOptionsFile is the file with the options by which a host plans that plans only, in place of the machine's.
// That it is there tells a state that is a plan from one that is true.
func (s Store) PlanOptionsFile() string { return filepath.Join(s.Dir, "plan-options.json") }

func (s Store) IsPlan() bool { return isThere(s.PlanOptionsFile()) }

// IsInUse reports whether a candor that is no observer keeps its state there; it may have none as yet.
func (s Store) IsInUse() bool {
	return !s.IsPlan() && (isThere(s.LockFile()) || isThere(s.File()))
}

func isThere(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}
