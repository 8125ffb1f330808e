package expreport

import (
	"embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
)

//go:embed *.html
var pageTexts embed.FS

// pageTemplates returns the templates of the pages. They are parsed at the first call, so that the agent needs no memory for
// them.
var pageTemplates = sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(pageTexts, "*.html")) })

// HTML writes a self-contained page with the tables, the pictures and every run.
func (r Report) HTML(w io.Writer) error {
	type metric struct {
		Table  table
		Figure template.HTML
	}
	data := struct {
		Command, Where, Legend string
		Verdicts, Notes        []string
		Setups                 table
		Metrics                []metric
		Report                 Report
	}{Command: r.workloadText(), Where: r.measurementText(), Legend: legend, Verdicts: slices.Concat(partialNote(r.Stopped, r.Rounds), r.verdicts()),
		Notes: r.notes(), Setups: r.setupTable(), Report: r}
	for _, m := range r.Metrics {
		figure, err := embedSVG(r.draw(m))
		if err != nil {
			return err
		}
		data.Metrics = append(data.Metrics, metric{r.table(m), figure})
	}
	return pageTemplates().ExecuteTemplate(w, "page.html", data)
}

// HTML writes a self-contained page with the tables, the pictures and every run.
func (r Isolation) HTML(w io.Writer) error {
	type application struct {
		Name, Command string
		Figure        template.HTML
	}
	data := struct {
		Where           string
		Verdicts, Notes []string
		Applications    []application
		Tables          []table
		Report          Isolation
	}{Where: r.measurementText(), Verdicts: slices.Concat(partialNote(r.Stopped, r.Rounds), r.verdicts()), Notes: r.notes(), Tables: r.tables(), Report: r}
	for i, a := range r.Applications {
		figure, err := embedSVG(r.draw(i))
		if err != nil {
			return err
		}
		data.Applications = append(data.Applications, application{a.Name, strings.Join(a.Command, " "), figure})
	}
	return pageTemplates().ExecuteTemplate(w, "isolation.html", data)
}

// Doing returns the names of a run's application, case and stressor, for the page.
func (r Isolation) Doing(app, c, stressor int) []string {
	beside := "alone"
	if stressor >= 0 {
		beside = r.Stressors[stressor].Name
	}
	return []string{r.Applications[app].Name, string(r.Cases[c]), beside}
}
