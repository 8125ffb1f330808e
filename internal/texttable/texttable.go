// Package texttable writes tables of texts. On a terminal that is too narrow for all columns of a table, it hides the least
// important columns, and lists their titles below the table.
package texttable

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// A Table is a table of texts.
type Table struct {
	Titles []string
	Rows   [][]string // each row has a cell for each title
	// Ranks orders the columns by importance. A column of rank 0 is always shown. Of the other columns, Write hides the column with the
	// highest rank first. nil: all columns are always shown.
	Ranks []int
	// LastWidth is the smallest width to which Write cuts the cells of the last column before it hides columns. A cut cell ends with
	// "…". 0: the cells are never cut.
	LastWidth int
	// FirstWidth is the same for the first column. Its cells lose their beginning, because the end of a path is its most specific part.
	FirstWidth int
}

// gap is the number of spaces between two columns.
const gap = 2

// Write writes the titles and the rows. width is the width of the terminal in characters; 0: unlimited. If the columns of rank 0 are wider
// than the terminal, Write writes them anyway.
func (t *Table) Write(w io.Writer, width int) error {
	shown := t.shown(width)
	first, last := t.rooms(width, shown)
	out := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, row := range append([][]string{t.Titles}, t.Rows...) {
		var cells []string
		for _, column := range shown {
			cell := row[column]
			if column == len(t.Titles)-1 {
				cell = cut(cell, last)
			}
			if column == 0 {
				cell = cutFront(cell, first)
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(shown) == len(t.Titles) {
		return nil
	}
	var hidden []string
	for column, title := range t.Titles {
		if !slices.Contains(shown, column) {
			hidden = append(hidden, title)
		}
	}
	_, err := fmt.Fprintf(w, "Hidden: %s. Use -o wide for all columns.\n", strings.Join(hidden, ", "))
	return err
}

// Width returns the width of the table with all columns, and without cut cells.
func (t *Table) Width() int {
	total := -gap
	for column := range t.Titles {
		total += t.width(column) + gap
	}
	return total
}

// shown returns the indexes of the columns to show.
func (t *Table) shown(width int) (columns []int) {
	total := -gap
	for column := range t.Titles {
		columns = append(columns, column)
		total += t.leastWidth(column) + gap
	}
	for width > 0 && total > width && len(t.Ranks) == len(t.Titles) {
		last := slices.MaxFunc(columns, func(a, b int) int { return t.Ranks[a] - t.Ranks[b] })
		if t.Ranks[last] == 0 {
			break
		}
		columns = slices.DeleteFunc(columns, func(column int) bool { return column == last })
		total -= t.leastWidth(last) + gap
	}
	return columns
}

// rooms returns the widths of the first and the last column. A column that may be cut gets the width that the other shown columns leave.
func (t *Table) rooms(width int, shown []int) (first, last int) {
	end := len(t.Titles) - 1
	first, last = t.width(0), t.width(end)
	if width == 0 {
		return first, last
	}
	left := width + gap
	for _, column := range shown {
		left -= t.leastWidth(column) + gap
	}
	left = max(left, 0)
	first = min(first, t.leastWidth(0)+left)
	return first, min(last, t.leastWidth(end)+left-(first-t.leastWidth(0)))
}

// cut shortens a cell to a width.
func cut(cell string, width int) string {
	if utf8.RuneCountInString(cell) <= width {
		return cell
	}
	return string([]rune(cell)[:width-1]) + "…"
}

// cutFront shortens a cell to a width. It removes the beginning.
func cutFront(cell string, width int) string {
	text := []rune(cell)
	if len(text) <= width {
		return cell
	}
	return "…" + string(text[len(text)-width+1:])
}

// leastWidth returns the width of a column if its cells are cut as far as possible.
func (t *Table) leastWidth(column int) int {
	width := t.width(column)
	title := utf8.RuneCountInString(t.Titles[column])
	if column == len(t.Titles)-1 && t.LastWidth > 0 {
		width = min(width, max(t.LastWidth, title))
	}
	if column == 0 && t.FirstWidth > 0 {
		width = min(width, max(t.FirstWidth, title))
	}
	return width
}

// width returns the width of a column in characters.
func (t *Table) width(column int) int {
	width := utf8.RuneCountInString(t.Titles[column])
	for _, row := range t.Rows {
		width = max(width, utf8.RuneCountInString(row[column]))
	}
	return width
}
