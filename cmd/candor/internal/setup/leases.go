package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/candor-project/candor/cgroup"
)

// Leases is the kind of the change that forbids leases on files (fcntl F_SETLEASE) on the whole machine. Root in a container can
// take a lease on the files of the container's view. Candor then cannot rewrite these files until the kernel breaks the lease.
const Leases cgroup.ConfinementKind = "leases-enable"

const leasesFile = "/proc/sys/fs/leases-enable"

// leaseFence returns the change that forbids leases; nil if leases are already forbidden or the kernel does not support them.
func leaseFence() ([]cgroup.Confinement, error) {
	now, err := readLeases()
	if errors.Is(err, fs.ErrNotExist) || err == nil && now == "0" {
		return nil, nil
	}
	return []cgroup.Confinement{{Kind: Leases, At: leasesFile, Before: now, After: "0"}}, err
}

func readLeases() (string, error) {
	text, err := os.ReadFile(leasesFile)
	return strings.TrimSpace(string(text)), err
}

func (s *Setup) readFence(f cgroup.Confinement) (string, error) {
	if f.Kind == Leases {
		return readLeases()
	}
	return s.Tree.ReadConfinement(f)
}

func (s *Setup) setFence(f cgroup.Confinement, value string) error {
	if f.Kind != Leases {
		return s.Tree.SetConfinement(f, value)
	}
	if value != "0" && value != "1" { // the record may have been edited
		return fmt.Errorf("%s %.20q: must be 0 or 1", leasesFile, value)
	}
	return os.WriteFile(leasesFile, []byte(value), 0)
}
