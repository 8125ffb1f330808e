package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// directories are the directories with the dashboards: for users, and for the chart.
var directories = []string{"../../deploy/grafana", "../../deploy/helm/candor/files"}

// TestFilesAreCurrent: the files have the dashboards of this program.
func TestFilesAreCurrent(t *testing.T) {
	for _, b := range all {
		want, err := b.json()
		if err != nil {
			t.Fatal(err)
		}
		for _, directory := range directories {
			if got, err := os.ReadFile(filepath.Join(directory, b.name+".json")); err != nil || string(got) != string(want) {
				t.Errorf("%s/%s.json is not current (%v): run make generate-dashboards", directory, b.name, err)
			}
		}
	}
}

// TestSchema: the files have only the fields of Grafana's schema, and values that the schema permits.
func TestSchema(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	for _, b := range all {
		text, err := os.ReadFile(filepath.Join(directories[0], b.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		d := dashboard.NewDashboard()
		var found cog.BuildErrors // empty, and not nil, without an error
		if err := d.UnmarshalJSONStrict(text); err != nil && (!errors.As(err, &found) || len(found) > 0) {
			t.Errorf("%s: %v", b.name, err)
		}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

// TestPanels: panels have distinct IDs and lie beside each other, within the 24 columns of the grid.
func TestPanels(t *testing.T) {
	for _, b := range all {
		text, err := b.json()
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Panels []struct {
				ID      int
				Title   string
				GridPos struct{ X, Y, W, H int }
			}
		}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		used, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if at := p.GridPos; at.X+at.W > 24 || at.W == 0 || at.H == 0 || ids[p.ID] {
				t.Errorf("%s: panel %q with ID %d is at %+v", b.name, p.Title, p.ID, at)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := used[[2]int{x, y}]; other != "" {
						t.Errorf("%s: the panels %q and %q overlap", b.name, other, p.Title)
					}
					used[[2]int{x, y}] = p.Title
				}
			}
		}
		if len(d.Panels) < 8 {
			t.Errorf("%s has %d panels", b.name, len(d.Panels))
		}
	}
}
