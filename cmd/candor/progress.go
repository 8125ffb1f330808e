package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/candor-project/candor/cpumap"
)

// A stage is the progress of a long work.
type stage struct {
	parts  string // completed parts, as text; "": the work has no parts
	events int64
	text   string  // shown instead of the number of events; "": the number is shown
	share  float64 // completed share of the work; 0: unknown
}

// showProgress keeps a line on a terminal up to date: a bar, events, rate, time left. On other outputs it writes nothing. The returned
// function removes the line. A library of progress bars would not shorten this code: the texts of the stages are the larger part.
func showProgress(out io.Writer, look func() stage) (end func()) {
	file, isFile := out.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(gone)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				fmt.Fprint(file, "\r\x1b[K")
				return
			case <-tick.C:
				line := look().line(time.Since(began))
				if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 2 {
					line = shorten(line, columns-1) // a terminal can wrap a line of its whole width
				}
				fmt.Fprint(file, "\r"+line+"\x1b[K")
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// barWidth is the width of the bar in columns.
const barWidth = 24

// line formats the progress. took is the time since the start of the work. The bar and the remaining time come first, because a
// narrow terminal cuts the end.
func (s stage) line(took time.Duration) string {
	line := fmt.Sprintf("%d events, %.0f a second", s.events, float64(s.events)/max(took.Seconds(), 1e-3))
	if s.text != "" {
		line = s.text
	}
	if s.parts != "" {
		line = s.parts + ", " + line
	}
	if s.share == 0 {
		return line
	}
	share := min(s.share, 1)
	left := time.Duration(float64(took) * (1 - share) / share)
	full := int(share * barWidth)
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "] " + left.Round(time.Second).String() + " left, " + line
}

// A latest is a value that one goroutine sets and another reads.
type latest[T any] struct {
	mutex sync.Mutex
	value T
}

func (l *latest[T]) set(v T) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.value = v
}

func (l *latest[T]) get() T {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.value
}

// colorFlag adds --color.
func colorFlag(cmd *cobra.Command) *choice {
	c := &choice{"auto", []string{"auto", "always", "never"}}
	wordFlag(cmd, c, c.of, "color", "", "colors: auto uses them on a terminal without NO_COLOR")
	return c
}

// textOptions returns the abilities of an output: colors, UTF-8 and width.
func textOptions(out io.Writer, color string) cpumap.TextOptions {
	o := cpumap.TextOptions{Color: color == "always", ASCII: !localeIsUTF8()}
	f, isFile := out.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return o
	}
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
		o.Columns = columns
	}
	if color == "auto" {
		o.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return o
}

// tableWidth returns the maximum width of a table. This is the width of the terminal, or 0 (unlimited) with -o wide and if out is
// not a terminal.
func tableWidth(out io.Writer, format *choice) int {
	if format.value == "wide" {
		return 0
	}
	return textOptions(out, "never").Columns
}

// localeIsUTF8 reports whether the terminal shows UTF-8. It is false only if the locale has another encoding. Without a locale,
// as in many containers, terminals still show UTF-8.
func localeIsUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}
