package expreport

import (
	"embed"
	"html/template"
	"io"
)

// The templates of the pages.
var (
	//go:embed *.html
	pageTexts embed.FS
	pageForms = template.Must(template.ParseFS(pageTexts, "*.html"))
)

// HTML writes a self-contained page with the tables, the pictures and every run.
func (r Report) HTML(w io.Writer) error {
	type metric struct {
		Table  table
		Figure template.HTML
	}
	data := struct {
		Command, Where, Legend string
		Metrics                []metric
		Notes                  []string
		Report                 Report
	}{Command: r.what(), Where: r.where(), Legend: legend, Notes: r.notes(), Report: r}
	for _, m := range r.Metrics {
		figure, err := inPage(r.draw(m))
		if err != nil {
			return err
		}
		data.Metrics = append(data.Metrics, metric{r.table(m), figure})
	}
	return pageForms.ExecuteTemplate(w, "page.html", data)
}
