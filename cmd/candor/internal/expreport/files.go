package expreport

import (
	"bytes"
	"html/template"
	"io"
	"strings"

	"github.com/candor-project/candor/internal/figure"
	"github.com/candor-project/candor/internal/fileio"
)

// pages returns the files that contain all data of a report.
func pages(json, markdown, html func(io.Writer) error) []fileio.File {
	return []fileio.File{{Name: "report.json", Write: json}, {Name: "report.md", Write: markdown}, {Name: "report.html", Write: html}}
}

// pictureFormats lists the file formats of a picture.
var pictureFormats = []struct {
	suffix string
	write  func(io.Writer, *figure.Plot) error
}{{".svg", figure.SVG}, {".png", figure.PNG}}

// pictures returns the files of a picture, in each format.
func pictures(name string, draw func() *figure.Plot) (files []fileio.File) {
	for _, form := range pictureFormats {
		files = append(files, fileio.File{Name: name + form.suffix, Write: func(w io.Writer) error { return form.write(w, draw()) }})
	}
	return files
}

// embedSVG returns a picture for embedding in a page. The SVG escapes its texts.
func embedSVG(p *figure.Plot) (template.HTML, error) {
	var svg bytes.Buffer
	if err := figure.SVG(&svg, p); err != nil {
		return "", err
	}
	_, drawn, _ := strings.Cut(svg.String(), "<svg") // without the XML declaration
	return template.HTML("<svg" + drawn), nil        //nolint:gosec // package figure escapes the texts of the SVG
}

// fileNamePart converts a text to a part of a file name.
func fileNamePart(text string) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, text)
	return strings.Trim(name[:min(len(name), 40)], "-")
}
