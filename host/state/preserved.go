package state

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/fileio"
)

// Preserved holds the CPUs of a container that Candor does not manage, because its user has chosen its CPUs. It is
// stored in preserved/NAME.
type Preserved struct {
	CPUs cpuset.Set `json:"cpus"`
	By   Process    `json:"by"` // the CPUs count as reserved while this process lives
}

// PreservedFile returns the path of the file with the preserved CPUs of a container.
func (s Store) PreservedFile(name string) string { return filepath.Join(s.Dir, "preserved", name) }

// PreservedCPUs returns the preserved CPUs of all containers whose process lives.
func (s Store) PreservedCPUs() (all cpuset.Set) {
	entries, _ := os.ReadDir(filepath.Join(s.Dir, "preserved"))
	for _, entry := range entries {
		if p, ok := s.LoadPreserved(entry.Name()); ok && p.By.Alive() {
			all = all.Union(p.CPUs)
		}
	}
	return all
}

// SavePreserved stores the preserved CPUs of a container.
func (s Store) SavePreserved(name string, p Preserved) error {
	text, err := json.Marshal(p)
	if err == nil {
		err = fileio.MakeDir(filepath.Dir(s.PreservedFile(name)))
	}
	if err == nil {
		err = fileio.Replace(s.PreservedFile(name), append(text, '\n'))
	}
	return err
}

// LoadPreserved reads the preserved CPUs of a container. ok is false if the file is missing or invalid.
func (s Store) LoadPreserved(name string) (p Preserved, ok bool) {
	text, err := fileio.ReadNoLink(s.PreservedFile(name), 1<<16)
	return p, err == nil && fileio.DecodeStrict(text, &p) == nil
}
