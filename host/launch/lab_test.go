package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
)

// The test binary is also candor's helper.
func init() {
	if len(os.Args) == 3 && os.Args[1] == host.HelperCommand {
		fmt.Fprintln(os.Stderr, RunHelper(os.Args[2]))
		os.Exit(1)
	}
}

// A lab is a host with groups and a state of its own.
type lab struct {
	*host.Host
	testing.TB
	parent, stateDir string
}

var labs atomic.Int64

// newLab returns a lab and removes it after the test.
func newLab(t testing.TB) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	l := &lab{TB: t, parent: fmt.Sprintf("/candor-launch-test-%d-%d", os.Getpid(), labs.Add(1)), stateDir: filepath.Join(t.TempDir(), "state")}
	var err error
	l.Host, err = host.Open(host.Options{
		StateDir: l.stateDir,
		Config:   filepath.Join(t.TempDir(), "host.json"),
		Cgroup:   cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Clear(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return l
}
