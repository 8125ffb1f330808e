package expreport

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"

	drawing "github.com/candor-project/candor/internal/figure"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// HTML writes a page that needs nothing else: tables, pictures, and every run.
func (r Report) HTML(w io.Writer) error {
	type metric struct {
		Title  string
		Figure template.HTML
		Rows   [][]string
	}
	data := struct {
		Command, Where, Legend string
		Titles                 []string
		Metrics                []metric
		Notes                  []string
		Report                 Report
	}{Command: r.what(), Where: r.where(), Legend: legend, Notes: r.notes(), Report: r}
	for _, c := range columns {
		data.Titles = append(data.Titles, c.title)
	}
	for _, m := range r.Metrics {
		var figure bytes.Buffer
		if err := r.draw(&figure, m, drawing.SVG); err != nil {
			return err
		}
		svg := figure.String()
		one := metric{Title: title(m), Figure: template.HTML(svg[strings.Index(svg, "<svg"):])} // without the XML declaration
		for _, comparison := range r.Compare(m.Name) {
			var row []string
			for _, c := range columns {
				row = append(row, c.value(&comparison))
			}
			one.Rows = append(one.Rows, row)
		}
		data.Metrics = append(data.Metrics, one)
	}
	return page.Execute(w, data)
}
