package top

import (
	"strings"

	"github.com/candor-project/candor/cpumap"
)

// A Style is the appearance of a text; the zero value is plain text.
type Style struct {
	Back    int // background behind black letters, an index of the terminal's 256 colors; 0: default colors
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

// String returns the text of the line without styles and without trailing spaces.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return strings.TrimRight(b.String(), " ")
}

// A canvas collects lines and cuts each line at a maximum width.
type canvas struct {
	columns int
	ascii   bool
	lines   []Line
	line    Line
	column  int
}

// put appends a text to the current line, cut at the width of the canvas.
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

// cut returns the longest beginning of a text that fits into the columns.
func cut(text string, columns int) string {
	for i, r := range text {
		if columns -= cpumap.Width(string(r)); columns < 0 {
			return text[:i]
		}
	}
	return text
}

// padTo appends spaces up to a column.
func (c *canvas) padTo(s Style, column int) {
	if n := column - c.column; n > 0 {
		c.put(s, strings.Repeat(" ", n))
	}
}

func (c *canvas) newline() {
	c.lines = append(c.lines, c.line)
	c.line, c.column = nil, 0
}
