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
}

// gap is the number of spaces between two columns.
const gap = 2

// Write writes the titles and the rows. width is the width of the terminal in characters; 0: unlimited. If the columns of rank 0 are wider
// than the terminal, Write writes them anyway.
func (t *Table) Write(w io.Writer, width int) error {
	shown := t.shown(width)
	last, room := len(t.Titles)-1, t.roomOfLast(width, shown)
	out := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, row := range append([][]string{t.Titles}, t.Rows...) {
		var cells []string
		for _, column := range shown {
			cell := row[column]
			if column == last {
				cell = cut(cell, room)
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

// roomOfLast returns the width that remains for the cells of the last column, next to the other shown columns.
func (t *Table) roomOfLast(width int, shown []int) int {
	last := len(t.Titles) - 1
	room := t.width(last)
	if width == 0 || t.LastWidth == 0 {
		return room
	}
	left := width
	for _, column := range shown {
		if column != last {
			left -= t.width(column) + gap
		}
	}
	return max(min(room, left), t.leastWidth(last))
}

// cut shortens a cell to a width.
func cut(cell string, width int) string {
	if utf8.RuneCountInString(cell) <= width {
		return cell
	}
	return string([]rune(cell)[:width-1]) + "…"
}

// leastWidth returns the width of a column if its cells are cut as far as possible.
func (t *Table) leastWidth(column int) int {
	width := t.width(column)
	if column == len(t.Titles)-1 && t.LastWidth > 0 {
		width = min(width, max(t.LastWidth, utf8.RuneCountInString(t.Titles[column])))
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
