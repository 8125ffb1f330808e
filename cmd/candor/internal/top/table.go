package top

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
)

// A column is a column of the list of containers.
type column struct {
	head  string
	sort  Sort // order by this column; 0: the list has no such order
	width int
	right bool // right-aligned, for numbers
	rank  int  // a narrow screen omits the columns with the highest ranks
	text  func(*Row) string
}

// columns lists the columns after the name.
var columns = []column{
	{"CLASS", 0, 9, false, 5, func(r *Row) string { return r.Class.String() }},
	{"LIMIT", ByLimit, 6, true, 2, func(r *Row) string { return limit(r.Limit) }},
	{"SEES", 0, 7, true, 7, func(r *Row) string { return r.SeenCPUs.String() }},
	{"CPUS", 0, 10, false, 6, func(r *Row) string { return cpumap.Shorten(cmp.Or(r.CPUs.String(), "none"), 10) }},
	{"USE", ByUse, 5, true, 0, func(r *Row) string {
		if !r.Used {
			return "-"
		}
		return fmt.Sprintf("%.2f", r.Use)
	}},
	{"HELP", 0, 5, true, 4, func(r *Row) string {
		if !r.Helped {
			return "-"
		}
		return fmt.Sprintf("%.2f", r.Helpers)
	}},
	{"LIM%", ByLimitUsed, 5, true, 3, func(r *Row) string { return r.LimitShare.percent() }},
	{"THR%", ByThrottled, 5, true, 1, func(r *Row) string { return r.Throttled.percent() }},
	{"ALL%", 0, 5, true, 4, func(r *Row) string { return r.ThrottledAll.percent() }},
	{"STATE", 0, 8, false, 3, func(r *Row) string { return r.Condition }},
}

func limit(m hybrid.Milli) string {
	if m == 0 {
		return "-"
	}
	return m.String()
}

// Widths in the list, and the rank from which fit drops columns for long names.
const (
	letterColumns = 2
	minNameWidth  = 8  // fit omits any column to give names this width
	goodNameWidth = 30 // fit omits only minor columns to give names this width
	minorRank     = 4  // a column from this rank on is minor
)

// fit returns the columns that fit into the width, and the width of the name column.
func fit(rows []*Row, width int) (chosen []column, name int) {
	longest := len("NAME")
	for _, r := range rows {
		longest = max(longest, cpumap.Width(r.Name))
	}
	chosen = slices.Clone(columns)
	room := func() int {
		left := width - letterColumns
		for _, c := range chosen {
			left -= c.width + 2
		}
		return left
	}
	for len(chosen) > 0 {
		worst := slices.MaxFunc(chosen, func(a, b column) int { return a.rank - b.rank })
		want := min(longest, minNameWidth)
		if worst.rank >= minorRank {
			want = min(longest, goodNameWidth)
		}
		if room() >= want {
			break
		}
		chosen = slices.DeleteFunc(chosen, func(c column) bool { return c.head == worst.head })
	}
	return chosen, min(longest, max(room(), 1))
}

// table draws the column headers and the containers around the cursor, in at most maxLines lines. If maxLines is 0, it draws all containers
// and no cursor.
func (u *UI) table(c *canvas, rows []*Row, maxLines int) {
	chosen, name := fit(rows, c.columns)
	c.padTo(Style{}, letterColumns)
	c.put(u.head(ByName), "NAME")
	for at, i := letterColumns+name, 0; i < len(chosen); i++ {
		head := chosen[i]
		c.padTo(Style{}, at+2+pad(head.right, head.width, head.head))
		c.put(u.head(head.sort), head.head)
		at += 2 + head.width
	}
	c.newline()
	cursor := u.cursor(rows)
	first, last := window(cursor, len(rows), maxLines)
	for i := first; i < last; i++ {
		s := Style{Reverse: maxLines > 0 && i == cursor}
		rows[i].draw(c, s, chosen, name)
		if s.Reverse {
			c.padTo(s, c.columns)
		}
		c.newline()
	}
}

// head returns the style of a column header. The sort column is highlighted.
func (u *UI) head(order Sort) Style {
	if order == u.Sort {
		return Style{Bold: true}
	}
	return Style{Dim: true}
}

func pad(right bool, width int, text string) int {
	if !right {
		return 0
	}
	return width - cpumap.Width(text)
}

func (r *Row) draw(c *canvas, s Style, chosen []column, name int) {
	if r.Letter != "" {
		c.put(Style{Back: r.Color}, r.Letter)
	} else {
		c.put(Style{Dim: true}, "·")
	}
	c.put(s, " ")
	c.put(s, cpumap.Shorten(r.Name, name))
	at := letterColumns + name
	for _, column := range chosen {
		text := column.text(r)
		c.padTo(s, at+2+pad(column.right, column.width, text))
		c.put(s, text)
		at += 2 + column.width
	}
}

// window returns the range of lines to draw: at most maxLines of n lines, around the cursor. If maxLines is 0, it returns all
// lines.
func window(cursor, n, maxLines int) (first, last int) {
	if maxLines <= 0 || n <= maxLines {
		return 0, n
	}
	first = min(max(0, cursor-maxLines/2), n-maxLines)
	return first, first + maxLines
}
