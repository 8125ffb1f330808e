package host

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/fileio"
)

// An unusable state file is set aside, and running containers keep their CPUs, class, limit and request.
func TestBrokenState(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(good []byte) []byte
	}{
		{"truncated", func(good []byte) []byte { return good[:len(good)/2] }},
		{"empty", func([]byte) []byte { return nil }},
		{"garbage", func([]byte) []byte { return bytes.Repeat([]byte{0xff, 0, '{'}, 5000) }},
		{"version 0", func(good []byte) []byte {
			return bytes.Replace(good, []byte(`"version":2`), []byte(`"version": 0`), 1)
		}},
		{"unknown field", func(good []byte) []byte { return bytes.Replace(good, []byte(`"name"`), []byte(`"title"`), 1) }},
		{"too long", func(good []byte) []byte { return append(good, bytes.Repeat([]byte(" "), state.MaxSize)...) }},
		{"contradiction", func(good []byte) []byte { return bytes.Replace(good, []byte(`"web"`), []byte(`"db"`), 1) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			l.needCPUs(2)
			l.must(flexible("log", "0.2"), "wait")
			db := ask("db", "0.5")
			db.OnResize = "signal:HUP"
			l.must(db, "wait")
			l.must(ask("web", "1"), "wait")
			before, err := l.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			good, err := os.ReadFile(l.store.File())
			if err != nil {
				t.Fatal(err)
			}
			bad := test.spoil(bytes.Clone(good))
			if err := fileio.Replace(l.store.File(), bad); err != nil { // a new file differs even within the same clock tick
				t.Fatal(err)
			}
			l.nudge()
			if !strings.Contains(l.log.String(), "state unusable") {
				t.Errorf("not logged: %s", l.log)
			}
			if kept, err := os.ReadFile(l.store.BadFile()); err != nil || !bytes.Equal(kept, bad) {
				t.Errorf("the broken file was not kept: %v", err)
			}
			l.check("db", "log", "web") // adopted by name
			after, _ := l.Snapshot()
			for i := range before.Grants {
				was := &before.Grants[i]
				is, err := after.Grant(was.ID)
				if err != nil {
					t.Fatal(err)
				}
				if is.CPUs != was.CPUs || is.Request != was.Request || is.Spec != was.Spec || is.Main != was.Main {
					t.Errorf("was %+v\nis  %+v", was, is)
				}
			}
		})
	}
}

// The state of a newer Candor is not changed.
func TestNewerState(t *testing.T) {
	l := newLab(t)
	l.must(ask("web", "0.5"), "wait")
	newer := []byte(`{"version": 4, "cpus": "in a later form"}`)
	if err := os.WriteFile(l.store.File(), newer, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := l.start(ask("db", "0.5"), "wait")
	if !errors.Is(err, state.ErrNewer) {
		t.Errorf("got %v", err)
	}
	if now, _ := os.ReadFile(l.store.File()); !bytes.Equal(now, newer) {
		t.Errorf("the file is now %s", now)
	}
	if names, _ := l.tree.Groups(); len(names) != 1 {
		t.Errorf("groups %v", names)
	}
}

// A state of an earlier boot is ignored.
func TestEarlierBoot(t *testing.T) {
	l := newLab(t)
	web := l.must(ask("web", "1"), "wait")
	web.stop()
	l.forge(func(s *state.State) { s.Boot = "another" })
	l.nudge()
	l.check()
	if !strings.Contains(l.log.String(), "earlier boot") {
		t.Errorf("not logged: %s", l.log)
	}
}
