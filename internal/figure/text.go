package figure

import (
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// regular returns the font of the PNG. The layout of an SVG uses the widths of this font, because fonts of
// SVG viewers have about the same widths.
var regular = sync.OnceValue(func() *sfnt.Font {
	f, err := sfnt.Parse(goregular.TTF)
	if err != nil {
		panic(err) // the font is part of the binary
	}
	return f
})

// textWidth returns the width of a text on paper.
func textWidth(s string) (width float64) {
	var buffer sfnt.Buffer
	for _, char := range s {
		width += charWidth(&buffer, char)
	}
	return width
}

func charWidth(buffer *sfnt.Buffer, char rune) float64 {
	glyph, _ := regular().GlyphIndex(buffer, char) // 0, the sign of a missing glyph, if there is an error
	advance, err := regular().GlyphAdvance(buffer, glyph, fixed.Int26_6(fontSize*64), font.HintingNone)
	if err != nil {
		return fontSize
	}
	return float64(advance) / 64
}

// fit cuts the end of a text that is wider than space.
func fit(s string, space float64) string {
	if textWidth(s) <= space {
		return s
	}
	const ellipsis = '…'
	var buffer sfnt.Buffer
	space -= charWidth(&buffer, ellipsis)
	for i, char := range s {
		if space -= charWidth(&buffer, char); space < 0 {
			return s[:i] + string(ellipsis)
		}
	}
	return s
}
