package expreport

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/internal/texttable"
)

// A table is a table of texts, with a heading above and a legend below.
type table struct {
	Heading string
	Titles  []string
	Rows    [][]string
	Ranks   []int // importance of the columns, as for texttable.Table
	Legend  string
	IsWords bool // the cells are sentences, which a page can break
}

// text writes the table for a terminal of the given width; 0: unlimited.
func (t *table) text(to *strings.Builder, width int) {
	fmt.Fprintf(to, "%s\n\n", t.Heading)
	t.textRows(to, width)
	if t.Legend != "" {
		fmt.Fprintf(to, "\n%s\n", t.Legend)
	}
	fmt.Fprintln(to)
}

// textRows writes the titles and rows.
func (t *table) textRows(to *strings.Builder, width int) {
	rows := texttable.Table{Titles: t.Titles, Rows: t.Rows, Ranks: t.Ranks}
	_ = rows.Write(to, width) // a write to memory cannot fail
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
