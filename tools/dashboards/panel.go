package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// A kind is a kind of panel.
type kind int

const (
	lines   kind = iota // values over time
	stacked             // values over time, on top of each other
	number              // the last value
	list                // a table with a row for each series
)

// A panel is a panel of a dashboard.
type panel struct {
	kind        kind
	title       string
	description string
	unit        string // of Grafana, such as short, percentunit or s
	width       uint32 // of 24; 0: 8
	red         float64
	queries     []query
}

// A query is an expression of PromQL, with the legend of its series.
type query struct{ expr, legend string }

// build returns the panel with an ID.
func (p *panel) build(id uint32) cog.Builder[dashboard.Panel] {
	switch p.kind {
	case number:
		return p.number(id)
	case list:
		return p.list(id)
	default:
		return p.lines(id)
	}
}

func (p *panel) lines(id uint32) cog.Builder[dashboard.Panel] {
	b := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.description).Datasource(source).Unit(p.unit).Min(0).
		Span(p.span()).Height(8).FillOpacity(10).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true))
	if p.kind == stacked {
		b.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	for i, q := range p.queries {
		b.WithTarget(q.build(i))
	}
	return b
}

func (p *panel) number(id uint32) cog.Builder[dashboard.Panel] {
	steps := []dashboard.Threshold{{Color: "green"}}
	if p.red > 0 {
		steps = append(steps, dashboard.Threshold{Value: cog.ToPtr(p.red), Color: "red"})
	}
	b := stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.description).Datasource(source).Unit(p.unit).Min(0).
		Span(p.span()).Height(4).Orientation(common.VizOrientationAuto).
		Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	for i, q := range p.queries {
		b.WithTarget(q.build(i))
	}
	return b
}

func (p *panel) list(id uint32) cog.Builder[dashboard.Panel] {
	b := table.NewPanelBuilder().Id(id).Title(p.title).Description(p.description).Datasource(source).Unit(p.unit).
		Span(p.span()).Height(10).Footer(common.NewTableFooterOptionsBuilder().Show(false)).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": map[string]bool{"Time": true, "__name__": true, "job": true, "endpoint": true, "service": true},
		}})
	for i, q := range p.queries {
		b.WithTarget(q.build(i).Instant().Format(prometheus.PromQueryFormatTable))
	}
	return b
}

func (p *panel) span() uint32 {
	if p.width == 0 {
		return 8
	}
	return p.width
}

// build returns the query with the index i of its panel.
func (q *query) build(i int) *prometheus.DataqueryBuilder {
	b := prometheus.NewDataqueryBuilder().Datasource(source).Expr(q.expr).RefId(string(rune('A' + i)))
	if q.legend != "" {
		b.LegendFormat(q.legend)
	}
	return b
}
