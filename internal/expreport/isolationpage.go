package expreport

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"

	drawing "github.com/candor-project/candor/internal/figure"
)

//go:embed isolation.html
var isolationText string

var isolationPage = template.Must(template.New("isolation").Parse(isolationText))

// HTML writes a page that needs nothing else: tables, pictures, and every run.
func (r Isolation) HTML(w io.Writer) error {
	type application struct {
		Name, Command string
		Figure        template.HTML
	}
	data := struct {
		Where        string
		Notes        []string
		Applications []application
		Tables       []table
		Report       Isolation
	}{Where: r.where(), Notes: r.notes(), Tables: r.tables(), Report: r}
	for i, a := range r.Applications {
		var figure bytes.Buffer
		if err := r.draw(&figure, i, drawing.SVG); err != nil {
			return err
		}
		svg := figure.String()
		drawn := template.HTML(svg[strings.Index(svg, "<svg"):]) // without the XML declaration
		data.Applications = append(data.Applications, application{a.Name, strings.Join(a.Command, " "), drawn})
	}
	return isolationPage.Execute(w, data)
}

// Doing says what a run was: its application, its case, and what was beside it.
func (r Isolation) Doing(app, c, stressor int) []string {
	beside := "alone"
	if stressor >= 0 {
		beside = r.Stressors[stressor].Name
	}
	return []string{r.Applications[app].Name, string(r.Cases[c]), beside}
}
