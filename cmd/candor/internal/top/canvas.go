package top

import (
	"strings"

	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
)

// A Style is the look of a text; the zero value is plain.
type Style struct {
	Back    int // color of the terminal's 256 behind black letters; 0: none
	Bold    bool
	Dim     bool
	Reverse bool
}

// A Span is a text with a style.
type Span struct {
	Style
	Text string
}

// A Line is a line of the screen.
type Line []Span

// String is the line without its styles, and without spaces at its end.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return strings.TrimRight(b.String(), " ")
}

// A canvas collects lines of a maximal width.
type canvas struct {
	columns int
	ascii   bool
	lines   []Line
	line    Line
	column  int
}

// put writes a text and cuts it at the width.
func (c *canvas) put(s Style, text string) {
	if c.ascii {
		text = cpumap.ASCII(text)
	}
	room := c.columns - c.column
	if wide := cpumap.Width(text); wide > room {
		text = cut(text, room)
	}
	if text == "" {
		return
	}
	c.column += cpumap.Width(text)
	c.line = append(c.line, Span{s, text})
}

// cut returns the beginning of a text that fits into the columns.
func cut(text string, columns int) string {
	for i, r := range text {
		if columns -= cpumap.Width(string(r)); columns < 0 {
			return text[:i]
		}
	}
	return text
}

// to writes spaces up to a column.
func (c *canvas) to(s Style, column int) {
	if n := column - c.column; n > 0 {
		c.put(s, strings.Repeat(" ", n))
	}
}

func (c *canvas) newline() {
	c.lines = append(c.lines, c.line)
	c.line, c.column = nil, 0
}
