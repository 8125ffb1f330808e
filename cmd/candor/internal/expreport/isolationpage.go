package expreport

import (
	"html/template"
	"io"
	"strings"
)

// HTML writes a self-contained page with the tables, the pictures and every run.
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
		figure, err := inPage(r.draw(i))
		if err != nil {
			return err
		}
		data.Applications = append(data.Applications, application{a.Name, strings.Join(a.Command, " "), figure})
	}
	return pageForms.ExecuteTemplate(w, "isolation.html", data)
}

// Doing describes a run: its application, its case and its stressor.
func (r Isolation) Doing(app, c, stressor int) []string {
	beside := "alone"
	if stressor >= 0 {
		beside = r.Stressors[stressor].Name
	}
	return []string{r.Applications[app].Name, string(r.Cases[c]), beside}
}
