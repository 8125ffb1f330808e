package cpumap

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A style is the appearance of a text; the zero value is plain text.
type style struct {
	fg, bg int // indexes of the terminal's 256 colors; 0: the default color
	bold   bool
	dim    bool
}

// palette lists the background colors of containers. The colors differ clearly, are light enough for black letters, and are visible
// on black and on white. svgPalette has the same hues in the same order.
var palette = []int{75, 215, 114, 211, 80, 183, 221, 180, 111, 150, 174, 146}

// A canvas collects styled text and counts its columns.
type canvas struct {
	buf    bytes.Buffer
	color  bool
	ascii  bool
	column int // column of the current line, from 0
}

// put writes text in a style.
func (c *canvas) put(s style, text string) {
	if c.ascii {
		text = ASCII(text)
	}
	c.column += Width(text)
	if !c.color || s == (style{}) {
		c.buf.WriteString(text)
		return
	}
	c.buf.WriteString("\x1b[")
	c.buf.WriteString(strings.Join(s.codes(), ";"))
	c.buf.WriteByte('m')
	c.buf.WriteString(text)
	c.buf.WriteString("\x1b[0m")
}

// padTo appends spaces up to a column.
func (c *canvas) padTo(column int) {
	if n := column - c.column; n > 0 {
		c.put(style{}, strings.Repeat(" ", n))
	}
}

// newline removes the trailing spaces of a line and ends the line.
func (c *canvas) newline() {
	c.buf.Truncate(len(bytes.TrimRight(c.buf.Bytes(), " ")))
	c.buf.WriteByte('\n')
	c.column = 0
}

// codes returns the SGR parameters of a style.
func (s style) codes() []string {
	var codes []string
	if s.bold {
		codes = append(codes, "1")
	}
	if s.dim {
		codes = append(codes, "2")
	}
	if s.fg != 0 {
		codes = append(codes, "38;5;"+strconv.Itoa(s.fg))
	}
	if s.bg != 0 {
		codes = append(codes, "48;5;"+strconv.Itoa(s.bg))
	}
	return codes
}

// ASCII replaces the drawing characters for locales without UTF-8. Names do not change.
func ASCII(text string) string { return asciiOnly.Replace(text) }

var asciiOnly = strings.NewReplacer("╭", "+", "╮", "+", "╰", "+", "╯", "+", "─", "-", "│", "|",
	"·", ".", "…", "~")

// Clean makes an untrusted name safe to print: it escapes control characters and other unprintable characters.
func Clean(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r == utf8.RuneError && !strings.HasPrefix(name[i:], "\uFFFD") || !unicode.IsPrint(r) {
			quoted := strconv.QuoteToASCII(string(r))
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Shorten cuts the middle out of a name that is wider than a number of columns, because similar names often differ only at their
// ends. The name must be clean (Clean).
func Shorten(name string, columns int) string {
	if Width(name) <= columns {
		return name
	}
	runes := []rune(name)
	head, tail := []rune{}, []rune{}
	room := columns - 1 // for the …
	for turn := 0; len(runes) > 0; turn++ {
		next := runes[0]
		if turn%2 == 1 {
			next = runes[len(runes)-1]
		}
		if room -= runeWidth(next); room < 0 {
			break
		}
		if turn%2 == 0 {
			head, runes = append(head, next), runes[1:]
		} else {
			tail, runes = append([]rune{next}, tail...), runes[:len(runes)-1]
		}
	}
	return string(head) + "…" + string(tail)
}

// Width returns the number of columns that text takes on a terminal.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// runeWidth returns the columns of a character: 0 for combining marks, 2 for wide East Asian characters and emoji.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.Is(unicode.Mn, r), unicode.Is(unicode.Me, r):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}
