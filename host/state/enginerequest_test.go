package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/fileio"
)

// A stored request is read for the same cgroup only, and an invalid file counts as missing.
func TestEngineRequest(t *testing.T) {
	s := NewStore(t.TempDir())
	g := &Grant{Engine: Engine{Cgroup: "/pods/web1", Pod: "uid1"}}
	g.ID = "web"
	if _, ok := s.LoadEngineRequest(g); ok {
		t.Error("a request is found before it is stored")
	}
	want := EngineRequest{QuotaUs: 123456, PeriodUs: 100000, BurstUs: 5000, Shares: 333, Weight: 7}
	if err := s.SaveEngineRequest(g, &want); err != nil {
		t.Fatal(err)
	}
	if got, ok := s.LoadEngineRequest(g); !ok || got != want {
		t.Errorf("read %+v, %v, want %+v", got, ok, want)
	}
	successor := *g
	successor.Engine.Cgroup = "/pods/web2"
	if got, ok := s.LoadEngineRequest(&successor); ok {
		t.Errorf("the successor has the request %+v", got)
	}
	for _, text := range []string{
		"", "{", `{"request":{}}`, `{"request":{"periodUs":-1}}`, `{"request":{"periodUs":100000,"quotaUs":99999999999999}}`,
		`{"request":{"periodUs":100000},"cgroup":"/pods/web1","more":1}`,
	} {
		if err := os.WriteFile(s.engineRequestFile("web"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, ok := s.LoadEngineRequest(g); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	for range 2 { // the second removal finds no file
		if err := s.SaveEngineRequest(g, nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(s.engineRequestFile("web")); !os.IsNotExist(err) {
		t.Errorf("after the removal: %v", err)
	}
}

func TestEngineRequestNormal(t *testing.T) {
	for r, want := range map[EngineRequest]EngineRequest{
		{}:                              {PeriodUs: 100000},
		{QuotaUs: -1, PeriodUs: 50000}:  {PeriodUs: 50000},
		{QuotaUs: 1, Shares: 2}:         {QuotaUs: 1, PeriodUs: 100000, Shares: 2},
		{PeriodUs: 100000, BurstUs: -1}: {PeriodUs: 100000},
	} {
		if got := r.Normal(); got != want {
			t.Errorf("%+v: %+v, want %+v", r, got, want)
		}
	}
}

func TestWeightScales(t *testing.T) {
	s := NewStore(t.TempDir())
	if w := s.LoadWeightScales(); w != (WeightScales{}) {
		t.Errorf("without a file: %+v", w)
	}
	var w WeightScales
	*w.Of(&Grant{Engine: Engine{Pod: "uid1"}}) = cgroup.QuadraticWeights
	*w.Of(&Grant{}) = cgroup.LinearWeights
	if err := s.SaveWeightScales(w); err != nil {
		t.Fatal(err)
	}
	want := WeightScales{NRI: cgroup.QuadraticWeights, OCI: cgroup.LinearWeights}
	if got := s.LoadWeightScales(); got != want || w != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if err := os.WriteFile(s.weightScaleFile(), []byte(`{"crio":"linear"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := s.LoadWeightScales(); got != (WeightScales{}) {
		t.Errorf("of an invalid file: %+v", got)
	}
}

// Remove removes the files of the state, and the directory only if it has no other files.
func TestRemoveState(t *testing.T) {
	for _, other := range []bool{false, true} {
		s := NewStore(filepath.Join(t.TempDir(), "state"))
		if err := s.Prepare(); err != nil {
			t.Fatal(err)
		}
		g := &Grant{}
		g.ID = "web"
		err := s.SaveEngineRequest(g, &EngineRequest{PeriodUs: 100000})
		for _, name := range []string{"state.json", "lock", "requests/web"} {
			if err == nil {
				err = fileio.Replace(filepath.Join(s.Dir, name), []byte("text"))
			}
		}
		if err == nil && other {
			err = os.WriteFile(filepath.Join(s.Dir, "notes"), nil, 0o644)
		}
		if err == nil {
			err = s.Remove()
		}
		if err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(s.Dir)
		if other && (len(left) != 1 || left[0].Name() != "notes") || !other && !os.IsNotExist(err) {
			t.Errorf("with another file %v: %v, %v remain", other, left, err)
		}
		if err := s.Remove(); err != nil {
			t.Errorf("again: %v", err)
		}
	}
}
