package expreport

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// A table is a table of texts, with a heading above and a legend below.
type table struct {
	Heading string
	Titles  []string
	Rows    [][]string
	Legend  string
}

// text writes the table for a terminal.
func (t *table) text(to *strings.Builder) {
	fmt.Fprintf(to, "%s\n\n", t.Heading)
	t.textRows(to)
	if t.Legend != "" {
		fmt.Fprintf(to, "\n%s\n", t.Legend)
	}
	fmt.Fprintln(to)
}

// textRows writes the titles and rows.
func (t *table) textRows(to *strings.Builder) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Titles}, t.Rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
}

// markdown writes the table as Markdown.
func (t *table) markdown(to *strings.Builder) {
	fmt.Fprintf(to, "\n## %s\n\n", escapeMarkdown(t.Heading))
	t.markdownRows(to)
	fmt.Fprintf(to, "\n%s\n", escapeMarkdown(t.Legend))
}

// markdownRows writes the titles and rows.
func (t *table) markdownRows(to *strings.Builder) {
	for i, row := range append([][]string{t.Titles}, t.Rows...) {
		for _, cell := range row {
			if i == 0 {
				cell = strings.ToLower(cell)
			}
			fmt.Fprintf(to, "| %s ", escapeMarkdown(cell))
		}
		to.WriteString("|\n")
		if i == 0 {
			to.WriteString(strings.Repeat("| --- ", len(t.Titles)) + "|\n")
		}
	}
}
