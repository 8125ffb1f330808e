package expreport

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// A table is one with a heading and what it says below.
type table struct {
	Heading string
	Titles  []string
	Rows    [][]string
	Legend  string
}

// text writes it for a terminal.
func (t *table) text(to *strings.Builder) {
	fmt.Fprintf(to, "%s\n\n", t.Heading)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Titles}, t.Rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	fmt.Fprintf(to, "\n%s\n\n", t.Legend)
}

// markdown writes it as Markdown.
func (t *table) markdown(to *strings.Builder) {
	fmt.Fprintf(to, "\n## %s\n\n", escape(t.Heading))
	for i, row := range append([][]string{t.Titles}, t.Rows...) {
		for _, cell := range row {
			if i == 0 {
				cell = strings.ToLower(cell)
			}
			fmt.Fprintf(to, "| %s ", escape(cell))
		}
		to.WriteString("|\n")
		if i == 0 {
			to.WriteString(strings.Repeat("| --- ", len(t.Titles)) + "|\n")
		}
	}
	fmt.Fprintf(to, "\n%s\n", escape(t.Legend))
}
