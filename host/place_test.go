package host

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// An ociLab creates and deletes containers as the creator of an OCI runtime does.
type ociLab struct{ *lab }

func (l ociLab) create(a Allocation) (*Grant, error) {
	l.Helper()
	g, err := l.Allocate(ctx, a)
	if err == nil {
		err = os.MkdirAll(l.BundleDir(a.ID), 0o700)
	}
	return g, err
}

func (l ociLab) must(a Allocation) *Grant {
	l.Helper()
	g, err := l.create(a)
	if err != nil {
		l.Fatal(err)
	}
	return g
}

func (l ociLab) delete(name string) {
	l.Helper()
	if err := l.Release(ctx, name, false); err != nil {
		l.Fatal(err)
	}
	if err := os.RemoveAll(l.BundleDir(name)); err != nil {
		l.Fatal(err)
	}
	// A test on a slow machine can take longer than the retention of a place.
	if _, err := os.Lstat(l.store.RetainedFile(name)); err == nil {
		l.editRetained(name, func(file map[string]any) { file["untilMs"] = int64(math.MaxInt64) })
	}
}

// TestRetainedPlace: a container that returns soon gets its former CPUs. Candor plans other containers
// elsewhere if possible.
func TestRetainedPlace(t *testing.T) {
	l := ociLab{newLab(t)}
	cpus := l.needCPUs(2)
	if len(cpus) > 2 {
		l.must(ask("rest", itoa(len(cpus)-2)))
	}
	web := l.must(ask("web", "1"))
	l.delete("web")
	db := l.must(ask("db", "1"))
	if db.CPUs == web.CPUs {
		t.Errorf("db has %v, which web had a moment ago", db.CPUs)
	}
	if again := l.must(ask("web", "1")); again.CPUs != web.CPUs {
		t.Errorf("web had %v, and has %v", web.CPUs, again.CPUs)
	}
	l.delete("web")
	if batch := l.must(ask("batch", "1")); batch.CPUs != web.CPUs {
		t.Errorf("batch has %v: only %v were left", batch.CPUs, web.CPUs)
	}
	var refusal *hybrid.Refusal
	if g, err := l.create(ask("web", "1")); !errors.As(err, &refusal) {
		t.Errorf("web came back to a node without room: %v %v", g, err)
	}
}

// A retained place is only a preference. A container with another request, a late container, and a container without
// an OCI runtime are planned without it, and no container is refused for a retained place.
func TestRetainedPlaceExpires(t *testing.T) {
	for name, change := range map[string]func(l ociLab, again *Allocation){
		"another limit": func(_ ociLab, again *Allocation) { again.Limit = 500 },
		"late": func(l ociLab, _ *Allocation) {
			l.editRetained("web", func(file map[string]any) { file["untilMs"] = state.SinceBoot().Milliseconds() - 1 })
		},
		"another boot": func(l ociLab, _ *Allocation) { l.editRetained("web", func(file map[string]any) { file["boot"] = "b" }) },
		"another name": func(l ociLab, _ *Allocation) {
			l.editRetained("web", func(file map[string]any) { file["grant"].(map[string]any)["name"] = "x" })
		},
		"not JSON": func(l ociLab, _ *Allocation) {
			if err := os.WriteFile(l.store.RetainedFile("web"), []byte("{"), 0o644); err != nil {
				l.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := ociLab{newLab(t)}
			l.needCPUs(2)
			if _, err := l.Allocate(ctx, ask("first", "1")); err != nil { // without an OCI runtime: no place is retained
				t.Fatal(err)
			}
			web := l.must(ask("web", "1"))
			l.delete("web")
			if err := l.Release(ctx, "first", false); err != nil {
				t.Fatal(err)
			}
			again := ask("web", "1")
			change(l, &again)
			if g := l.must(again); g.CPUs == web.CPUs {
				t.Errorf("it is still on %v: no container has been planned", g.CPUs)
			}
		})
	}
}

// editRetained changes the file that retains the grant of a container.
func (l ociLab) editRetained(name string, change func(file map[string]any)) {
	l.Helper()
	text, err := os.ReadFile(l.store.RetainedFile(name))
	if err != nil {
		l.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(text, &file); err != nil {
		l.Fatal(err)
	}
	change(file)
	if text, err = json.Marshal(file); err == nil {
		err = os.WriteFile(l.store.RetainedFile(name), text, 0o644)
	}
	if err != nil {
		l.Fatal(err)
	}
}

// TestRetainedPlaceIsPreference: guarantees that flexible containers got after the end of a container take
// precedence over its retained place.
func TestRetainedPlaceIsPreference(t *testing.T) {
	l := ociLab{newLab(t)}
	cpus := l.needCPUs(2)
	l.must(ask("web", "1"))
	l.delete("web")
	l.must(flexible("log", itoa(len(cpus)-1)+".5"))
	_, err := l.create(ask("web", "1"))
	var refusal *hybrid.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "no capacity") {
		t.Errorf("web: %v", err)
	}
	if half := l.must(ask("half", "0.5")); half.CPUs.Count() != 1 {
		t.Errorf("%+v", half)
	}
}

// A program started by candor run, or never created, leaves no retained place.
func TestNoRetainedPlace(t *testing.T) {
	l := newLab(t)
	web := l.must(ask("web", "1"), "wait")
	web.stop()
	if err := l.Release(ctx, "web", false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(l.store.RetainedFile("web")); err == nil {
		t.Error("its place is kept")
	}
}
