package setup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/candor-project/candor/cgroup"
)

// TestRecordedSetup reads a record that an earlier release has written, and writes the same bytes. candor setup host --undo needs it.
func TestRecordedSetup(t *testing.T) {
	text, err := os.ReadFile("testdata/setup.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if r.Before.String() != "0" || !r.NoConfig || r.Reserved.String() != "0-1" || len(r.Fences) != 4 {
		t.Errorf("%+v", *r)
	}
	for i, kind := range []cgroup.ConfinementKind{cgroup.ConfineUnit, cgroup.ConfineToPartition, cgroup.ConfineCPUs, cgroup.ConfineProcesses} {
		if r.Fences[i].Kind != kind {
			t.Errorf("fence %d is %s, want %s", i, r.Fences[i].Kind, kind)
		}
	}
	if want := (cgroup.Confinement{Kind: cgroup.ConfineCPUs, At: "/docker", Before: "0-7", After: "0-1"}); r.Fences[2] != want {
		t.Errorf("%+v, want %+v", r.Fences[2], want)
	}
	s := &Setup{Config: filepath.Join(t.TempDir(), "host.json")}
	if err := s.save(r); err != nil {
		t.Fatal(err)
	}
	if saved, err := os.ReadFile(filepath.Join(filepath.Dir(s.Config), "setup.json")); err != nil || string(saved) != string(text) {
		t.Errorf("%v, saved:\n%s\nwant:\n%s", err, saved, text)
	}
}
