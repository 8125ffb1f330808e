package setup

import (
	"os"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// TestDisableLeases forbids leases on this machine, without reserved CPUs, and allows them again.
func TestDisableLeases(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	before, err := readLeases()
	if err != nil || before != "1" {
		t.Skipf("leases-enable is %q here: %v", before, err)
	}
	defer os.WriteFile(leasesFile, []byte(before), 0)
	s := open(t)
	s.DisableLeases = true
	for _, dry := range []bool{true, false} {
		do := s.Apply
		if dry {
			do = s.Plan
		}
		r, err := do(cpuset.Set{})
		if err != nil || len(r.Changes) != 1 || r.Changes[0].Kind != Leases || r.Changes[0].Before != "1" || r.Changes[0].After != "0" {
			t.Fatalf("dry run %v: %+v, %v", dry, r, err)
		}
		if now, _ := readLeases(); (now == "0") == dry {
			t.Errorf("dry run %v: leases-enable is %s", dry, now)
		}
	}
	if r, err := s.Apply(cpuset.Set{}); err != nil || len(r.Changes) != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	if r, err := s.Undo(false); err != nil || len(r.Changes) != 1 {
		t.Errorf("undo: %+v, %v", r, err)
	}
	if now, _ := readLeases(); now != before {
		t.Errorf("after undo leases-enable is %s", now)
	}
}
