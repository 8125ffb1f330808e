package engine

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRecordedSetup reads a record of an earlier release, which candor setup docker --undo needs, and saves
// the same bytes.
func TestRecordedSetup(t *testing.T) {
	const recorded = "testdata/setup-docker.json"
	s := &Setup{File: "/etc/docker/daemon.json", Record: recorded}
	r, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	if r.File != s.File || string(r.Before) != "{}\n" || !r.Made {
		t.Errorf("%+v", *r)
	}
	s.Record = filepath.Join(t.TempDir(), "setup-docker.json")
	if err := s.save(r); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if saved, err := os.ReadFile(s.Record); err != nil || string(saved) != string(want) {
		t.Errorf("%v, saved:\n%s\nwant:\n%s", err, saved, want)
	}
}
