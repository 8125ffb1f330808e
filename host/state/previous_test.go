package state

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/spec"
)

// previousState and the types below are the state file of the release before this one, as its parser has recorded it
// (commit 414655b, host/state.go). They never change. TestReleaseUpgrade of package e2e runs that release itself.
type previousState struct {
	Version int             `json:"version"`
	Boot    string          `json:"boot"`
	Grants  []previousGrant `json:"grants"`
}

type previousGrant struct {
	Name      string          `json:"name"`
	State     string          `json:"state"`
	Creator   previousProcess `json:"creator"`
	Main      previousProcess `json:"main"`
	Since     int64           `json:"sinceMs"`
	Deadline  int64           `json:"deadlineMs,omitempty"`
	Request   previousRequest `json:"request"`
	CPUs      cpuset.Set      `json:"cpus"`
	Exclusive cpuset.Set      `json:"exclusive"`
	Fractions []struct {
		CPU   int          `json:"cpu"`
		Milli hybrid.Milli `json:"milli"`
	} `json:"fractions,omitempty"`
	Quota    hybrid.Milli    `json:"quota,omitempty"`
	Weight   hybrid.Milli    `json:"weight"`
	WishKept bool            `json:"wishKept"`
	Engine   *previousEngine `json:"engine,omitempty"`
	Loan     *struct {
		To    previousProcess `json:"to"`
		Until int64           `json:"untilMs"`
	} `json:"loan,omitempty"`
}

type previousProcess struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

type previousEngine struct {
	Cgroup  string `json:"cgroup"`
	Pod     string `json:"pod,omitempty"`
	Sandbox string `json:"sandbox,omitempty"`
	Name    string `json:"name,omitempty"`
}

type previousRequest struct {
	Class     string       `json:"class"`
	Policy    string       `json:"policy"`
	Limit     hybrid.Milli `json:"limit"`
	Guarantee hybrid.Milli `json:"guarantee,omitempty"`
	Wish      string       `json:"topology"`
	Immovable bool         `json:"immovable,omitempty"`
	PeriodUs  int64        `json:"periodUs"`
	BurstUs   int64        `json:"burstUs,omitempty"`
	BurstBy   string       `json:"burstBy,omitempty"`
	Mems      bool         `json:"mems,omitempty"`
	View      string       `json:"view"`
	OnResize  string       `json:"onResize"`
	Command   string       `json:"command"`
}

// A previousLabel is the content of requests/NAME.
type previousLabel struct {
	Version int             `json:"version"`
	Main    previousProcess `json:"main"`
	Request previousRequest `json:"request"`
	Engine  *previousEngine `json:"engine,omitempty"`
}

// A previousPlace is the content of kept/NAME.
type previousPlace struct {
	Boot    string        `json:"boot"`
	UntilMs int64         `json:"untilMs"`
	Grant   previousGrant `json:"grant"`
}

// previousReads returns the grants of a state file, or the error with which the previous release refuses it.
func previousReads(text []byte) ([]previousGrant, error) {
	var file previousState
	if err := fileio.DecodeStrict(text, &file); err != nil {
		return nil, err
	}
	for _, g := range file.Grants {
		if g.Engine != nil {
			if err := cgroup.CheckPath(g.Engine.Cgroup); err != nil {
				return nil, err
			}
		}
	}
	return file.Grants, nil
}

// previousWords are the values of the previous release: other values are features.
var previousWords = map[string][]string{
	"state":    {"pending", "running", "held"},
	"class":    {"sensitive", "flexible"},
	"policy":   {"strict", "best-effort"},
	"topology": {"prefer", "single-numa", "single-l3", "whole-cores", "none"},
	"burstBy":  {"", "kernel", "quota", "auto"},
	"view":     {"full", "affinity"},
}

// TestPreviousRelease: the previous release reads each state without a feature, and the files beside it. A state with a
// feature has a version that the previous release refuses as newer, and names the feature.
func TestPreviousRelease(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrant(t, "web")
		g.Engine = rapid.SampledFrom([]Engine{{}, {Name: "shop"}, {Cgroup: "/docker/web", Name: "shop"}, {"/kubepods/pod1/web", "pod1", "box1", "default/shop/app"}}).Draw(t, "engine")
		isUsed := rapid.Bool().Draw(t, "feature")
		if !isUsed {
			g.Helpers, g.HasHelper = spec.HelpersShow, false
			g.Lease.Min, g.Lease.Max, g.Lease.Frozen = 0, 0, false
			g.View = g.View.WithoutMemory().WithoutStat()
		}
		text := textOf(State{Boot: "b", Grants: []*Grant{&g}})
		var file fileState
		if err := fileio.DecodeStrict(text, &file); err != nil {
			t.Fatal(err)
		}
		if isUsed {
			want := []Feature{FeatureHelpers}
			if !slices.Contains([]spec.View{spec.ViewAffinity, spec.ViewCPU}, g.View) {
				want = append(want, FeatureLiveView)
			}
			if file.Version != FeatureVersion || !reflect.DeepEqual(file.Features, want) {
				t.Fatalf("version %d, features %v; want %v", file.Version, file.Features, want)
			}
			return
		}
		grants, err := previousReads(text)
		if err != nil {
			t.Fatalf("%v: the previous release refuses\n%s", err, text)
		}
		checkWords(t, &grants[0])
		var label previousLabel
		if err := fileio.DecodeStrict(encodeLabel(&g), &label); err != nil || label.Version != 2 {
			t.Fatalf("request: version %d, %v\n%s", label.Version, err, encodeLabel(&g))
		}
		s := NewStore(dir)
		if err := s.Retain("b", time.Hour, &g); err != nil {
			t.Fatal(err)
		}
		var place previousPlace
		kept, err := os.ReadFile(s.RetainedFile("web"))
		if err == nil {
			err = fileio.DecodeStrict(kept, &place)
		}
		if err != nil || !reflect.DeepEqual(place.Grant, grants[0]) {
			t.Fatalf("kept: %v\n%s", err, kept)
		}
	})
}

func checkWords(t *rapid.T, g *previousGrant) {
	r := &g.Request
	for field, word := range map[string]string{"state": g.State, "class": r.Class, "policy": r.Policy, "topology": r.Wish, "burstBy": r.BurstBy, "view": r.View} {
		if !slices.Contains(previousWords[field], word) {
			t.Errorf("%s %q: the previous release does not know it", field, word)
		}
	}
}

// TestRecordedState3 loads a state with the fields of version 3 and saves the same bytes.
func TestRecordedState3(t *testing.T) {
	text := recordedState(t, "state-3.json")
	s, err := decodeState(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := saved(s); !bytes.Equal(got, text) {
		t.Errorf("saved:\n%s\nloaded:\n%s", got, text)
	}
	want := Lease{Process{1001, 20001}, 90002 * time.Millisecond, time.Millisecond, 200 * time.Millisecond, true}
	if g := s.Grants[0]; g.Helpers != spec.HelpersCharge || g.Lease != want || !g.HasHelper || s.Grants[1].Uses(FeatureHelpers) {
		t.Errorf("%+v", g)
	}
	if _, err := previousReads(text); err == nil {
		t.Error("the previous release reads the state with features")
	}
	// A former build wrote these fields in version 2.
	old := strings.Replace(string(text), `"version":3,"features":["helpers"]`, `"version":2`, 1)
	if again, err := decodeState([]byte(old)); err != nil || !bytes.Equal(saved(again), text) {
		t.Errorf("version 2 with these fields: %v", err)
	}
}

// TestEngineNames: the state file has no names of containers in cgroups of Candor, and Load returns the names.
func TestEngineNames(t *testing.T) {
	s := NewStore(t.TempDir())
	names := func() string {
		text, err := os.ReadFile(filepath.Join(s.Dir, "engine-names.json"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
	save := func(engines map[string]Engine) {
		t.Helper()
		var grants []*Grant
		for _, id := range []string{"0123456789ab", "app", "web"} {
			if e, ok := engines[id]; ok {
				g := &Grant{State: Running, Engine: e, Grant: granted(hybrid.Request{ID: id, Limit: 1000}, "0", "0", 0, 1000),
					Spec: spec.Spec{Period: 100 * time.Millisecond, View: spec.ViewCPU, OnResize: "none", Command: "sh"}}
				grants = append(grants, g)
			}
		}
		next, _, err := s.cache.last.Load().Next("b", grants)
		if err == nil {
			err = s.Save(next)
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(s.File())
		if err != nil || strings.Contains(string(text), "shop") {
			t.Errorf("state: %v\n%s", err, text)
		}
		other, err := NewStore(s.Dir).Load()
		if err != nil || !reflect.DeepEqual(other.Grants, next.Grants) {
			t.Errorf("%v, loaded %+v, saved %+v", err, other.Grants, next.Grants)
		}
	}
	pod := Engine{Cgroup: "/kubepods/pod1/app", Pod: "1", Name: "default/x/app"}
	save(map[string]Engine{"0123456789ab": {Name: "shop"}, "app": pod, "web": {}})
	if got := names(); got != `{"names":{"0123456789ab":"shop"}}`+"\n" {
		t.Errorf("names: %s", got)
	}
	save(map[string]Engine{"0123456789ab": {Name: "\xff"}, "web": {Name: "shop-2"}})
	if got := names(); got != `{"names":{"web":"shop-2"}}`+"\n" {
		t.Errorf("names: %s", got)
	}
	// A broken file costs the names.
	if err := os.WriteFile(filepath.Join(s.Dir, "engine-names.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if loaded, err := NewStore(s.Dir).Load(); err != nil || len(loaded.Grants) != 2 || loaded.Grants[1].Engine != (Engine{}) {
		t.Errorf("broken names: %v, %+v", err, loaded)
	}
	save(map[string]Engine{"web": {}})
	if got := names(); got != "" {
		t.Errorf("names remain: %s", got)
	}
}
