package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/procfs"
)

const (
	recordVersion = 1
	maxRecord     = 16 << 20 // bytes; a confinement takes about 200 bytes
)

// A record holds the values from before the first setup, and the values that setup has written.
type record struct {
	Version  int                  `json:"version"`
	Boot     string               `json:"boot"`           // boot ID of the kernel; a reboot resets the confinements
	Before   cpuset.Set           `json:"reservedBefore"` // reserved CPUs before the first setup
	NoConfig bool                 `json:"noConfigBefore"` // the file of the host's options did not exist before the first setup
	Reserved cpuset.Set           `json:"reserved"`
	Fences   []cgroup.Confinement `json:"fences"` // in the order in which they were set
}

// with returns the record for a further setup. For a change that the record already contains, it retains the value from before the first
// setup.
func (r *record) with(before, reserved cpuset.Set, fences []cgroup.Confinement) (*record, error) {
	boot, err := procfs.BootID()
	if err != nil {
		return nil, err
	}
	next := &record{Version: recordVersion, Boot: boot, Before: before, Reserved: reserved}
	if r != nil {
		next.Before, next.NoConfig = r.Before, r.NoConfig
		next.Fences = slices.Clone(r.Fences)
	}
	for _, f := range fences {
		i := slices.IndexFunc(next.Fences, func(o cgroup.Confinement) bool { return o.Kind == f.Kind && o.At == f.At })
		if i < 0 {
			next.Fences = append(next.Fences, f)
		} else {
			next.Fences[i].After = f.After
		}
	}
	return next, nil
}

// load reads the record; nil if there is none. It omits confinements of an earlier boot, which no longer exist.
func (s *Setup) load() (*record, error) {
	name := s.recordFile()
	text, err := fileio.Read(name, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: correct the file, or remove it and set the host up again", name, err)
	}
	boot, err := procfs.BootID()
	if err == nil && r.Boot != boot {
		r.Fences = nil
	}
	return r, err
}

// Recorded returns the CPUs that the setup has reserved, and the number of its other changes that are in force. isDone is
// false if the machine is not set up.
func (s *Setup) Recorded() (reserved cpuset.Set, changes int, isDone bool, err error) {
	r, err := s.load()
	if err != nil || r == nil {
		return reserved, 0, false, err
	}
	return r.Reserved, len(r.Fences), true, nil
}

func decode(text []byte) (*record, error) {
	r := new(record)
	if err := fileio.DecodeStrict(text, r); err != nil {
		return nil, err
	}
	if r.Version != recordVersion {
		return nil, fmt.Errorf("version %d: this candor knows version %d", r.Version, recordVersion)
	}
	return r, nil
}

// save replaces the record. If r is nil, it removes the record.
func (s *Setup) save(r *record) error {
	name := s.recordFile()
	if r == nil {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return fileio.Replace(name, append(text, '\n'))
}

// lock prevents a second setup at the same time. It locks the directory of the record, so that no lock file remains.
func (s *Setup) lock() (unlock func(), err error) {
	name := strings.TrimSuffix(s.recordFile(), "/"+Record)
	if err := fileio.MakeDirs(name); err != nil {
		return nil, err
	}
	dir, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		dir.Close()
		return nil, fmt.Errorf("%s: another candor setup is running: %w", name, err)
	}
	return func() { dir.Close() }, nil
}
