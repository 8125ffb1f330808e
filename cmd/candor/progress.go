package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/candor-project/candor/simulate"
)

// showProgress keeps a line on a terminal up to date: points, events, rate, time left.
// Elsewhere it writes nothing. eventsEach is the trace's number of events, 0 where it is not
// known: then it is taken from the points that are finished. The function that it returns ends it.
func showProgress(out io.Writer, p *simulate.Progress, eventsEach int64, points int) (end func()) {
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
				fmt.Fprint(file, "\r"+progressLine(p, eventsEach, points, time.Since(began))+"\x1b[K")
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

// progressLine says how far the points are.
func progressLine(p *simulate.Progress, eventsEach int64, points int, took time.Duration) string {
	finished, finishedEvents := p.Finished()
	events := p.Events()
	rate := float64(events) / max(took.Seconds(), 1e-3)
	line := fmt.Sprintf("%d of %s, %d events, %.0f a second", finished, count(points, "point", "points"), events, rate)
	if eventsEach == 0 && finished > 0 {
		eventsEach = finishedEvents / finished
	}
	if eventsEach == 0 || rate == 0 {
		return line
	}
	all := float64(eventsEach) * float64(points)
	share := min(float64(events)/all, 1)
	left := time.Duration(max(all-float64(events), 0) / rate * float64(time.Second))
	full := int(share * barWidth)
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "] " + line + ", " + left.Round(time.Second).String() + " left"
}
