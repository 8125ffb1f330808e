package auditreport

import (
	_ "embed"
	"html/template"
	"io"
	"sync"
)

//go:embed report.html
var page string

// report returns the template of the page. The template escapes the names, which come from nodes. It is parsed at the first call,
// since candor itself does not write the page.
var report = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Funcs(template.FuncMap{
		"lost": Lost, "percent": percent, "limit": limitText,
		"gain":  func(c Container) string { return c.gain() },
		"sees":  func(c Container) string { return c.SeenCPUs().String() },
		"title": func(n Namespace) string { return n.title() },
	}).Parse(page))
})

// HTML writes a page that contains everything that it shows: it loads no other file.
func (c *Cluster) HTML(w io.Writer) error { return report().Execute(w, c) }
