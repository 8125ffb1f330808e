package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeService returns a service whose systemctl prints a text for show, appends each call to a file, and fails for a
// verb.
func fakeService(t *testing.T, show, failing string) (s *Service, calls func() string) {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%[1]s/calls\n[ \"$1\" = show ] && cat %[1]s/show\nif [ \"$1\" = '%[2]s' ]; then echo 'Access denied' >&2; exit 4; fi\nexit 0\n", dir, failing)
	for name, text := range map[string]string{"systemctl": script, "show": show} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &Service{Unit: ServiceUnit, Systemctl: filepath.Join(dir, "systemctl"), Booted: dir}, func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "calls"))
		return string(text)
	}
}

func TestServiceState(t *testing.T) {
	for _, c := range []struct {
		show             string
		want             string
		isRunning, isOff bool
	}{
		{"LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n", "active, enabled", true, false},
		{"LoadState=loaded\nActiveState=activating\nUnitFileState=enabled\n", "activating, enabled", true, false},
		{"LoadState=loaded\nActiveState=reloading\nUnitFileState=disabled\n", "reloading, disabled", true, false},
		{"LoadState=loaded\nActiveState=deactivating\nUnitFileState=disabled\n", "deactivating, disabled", true, false},
		{"UnitFileState=disabled\nLoadState=loaded\nActiveState=inactive\n", "inactive, disabled", false, true},
		{"LoadState=loaded\nActiveState=failed\nUnitFileState=disabled\n", "failed, disabled", false, true},
		{"LoadState=loaded\nActiveState=inactive\nUnitFileState=enabled\n", "inactive, enabled", false, false},
		{"LoadState=loaded\nActiveState=active\nUnitFileState=\n", "active, static", true, false},
		{"LoadState=not-found\nActiveState=inactive\n", "", false, true},
		{"", "", false, true},
	} {
		s, _ := fakeService(t, c.show, "")
		state, err := s.State()
		if err != nil || state.String() != c.want || state.IsRunning() != c.isRunning || state.IsOff() != c.isOff {
			t.Errorf("%q: %q, running %v, off %v, %v; want %+v", c.show, state, state.IsRunning(), state.IsOff(), err, c)
		}
	}
	s := &Service{Unit: ServiceUnit, Booted: filepath.Join(t.TempDir(), "none")}
	if state, err := s.State(); err != nil || !state.IsOff() {
		t.Errorf("without systemd: %q, %v", state, err)
	}
}

func TestServiceOnOff(t *testing.T) {
	s, calls := fakeService(t, "", "")
	if err := s.Off(); err != nil {
		t.Error(err)
	}
	if err := s.On(); err != nil {
		t.Error(err)
	}
	if want := "disable --now candor-nri.service\nenable candor-nri.service\nstart --no-block candor-nri.service\n"; calls() != want {
		t.Errorf("calls\n%swant\n%s", calls(), want)
	}
	s, _ = fakeService(t, "", "disable")
	if err := s.Off(); err == nil || !strings.Contains(err.Error(), "systemctl disable: Access denied") {
		t.Errorf("a failing systemctl: %v", err)
	}
}
