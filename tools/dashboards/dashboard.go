package main

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// A board is a dashboard.
type board struct {
	name        string // of the file
	title       string
	description string
	variables   []variable
	rows        []row
}

// A variable is a list on the dashboard from which the user selects values of a label.
type variable struct {
	name, label string
	query       string // label_values of Prometheus
	isSingle    bool   // the user selects a single value
}

// A row is a group of panels with a title.
type row struct {
	title  string
	panels []panel
}

// source refers to the data source that the user selects on the dashboard.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// json returns the dashboard as Grafana imports it.
func (b *board) json() ([]byte, error) {
	d := dashboard.NewDashboardBuilder(b.title).Uid(b.name).Description(b.description).Tags([]string{"candor", "cpu"}).
		Refresh("30s").Time("now-6h", "now").Timezone("").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Candor").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"candor"}).AsDropdown(true).
			IncludeVars(true).KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	for _, v := range b.variables {
		d.WithVariable(v.build())
	}
	id := uint32(0)
	for _, r := range b.rows {
		id++
		d.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		for _, p := range r.panels {
			id++
			d.WithPanel(p.build(id))
		}
	}
	built, err := d.Build()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	text, err := json.MarshalIndent(built, "", "  ")
	return append(text, '\n'), err
}

func (v *variable) build() *dashboard.QueryVariableBuilder {
	q := dashboard.NewQueryVariableBuilder(v.name).Label(v.label).Datasource(source).
		Query(dashboard.StringOrMap{String: cog.ToPtr(v.query)}).Definition(v.query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
	if v.isSingle {
		return q
	}
	all := dashboard.VariableOption{
		Text:  dashboard.StringOrArrayOfString{String: cog.ToPtr("All")},
		Value: dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
	}
	return q.Multi(true).IncludeAll(true).AllValue(".*").Current(all)
}
