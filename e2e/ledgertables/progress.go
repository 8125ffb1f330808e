package ledgertables

import (
	"fmt"
	"time"
)

// A Progress counts the cells of a plan and estimates the remaining time.
type Progress struct {
	rest            []Cell        // not measured yet
	total, measured int           // cells of the plan; cells measured by this process
	extra           time.Duration // time of the measured cells beyond their minTime
}

// firstExtra is the assumed time to start and end the containers of a cell. It applies until this process has measured a cell.
const firstExtra = 6 * time.Second

// NewProgress returns the progress of a plan. isMeasured reports whether an earlier process has measured a cell.
func NewProgress(plan []Cell, isMeasured func(Cell) bool) *Progress {
	p := &Progress{total: len(plan)}
	for _, c := range plan {
		if !isMeasured(c) {
			p.rest = append(p.rest, c)
		}
	}
	return p
}

// A Part is a list of cells of an engine in a run: the engine starts once for a part.
type Part struct {
	Engine Engine
	Run    int
	Cells  []Cell
}

// Parts divides the remaining cells.
func (p *Progress) Parts() (parts []Part) {
	for _, c := range p.rest {
		column, err := ColumnOf(c.Column)
		if err != nil {
			panic(err) // Plan uses the columns of this package
		}
		if n := len(parts); n == 0 || parts[n-1].Engine != column.Engine || parts[n-1].Run != c.Run {
			parts = append(parts, Part{Engine: column.Engine, Run: c.Run})
		}
		last := &parts[len(parts)-1]
		last.Cells = append(last.Cells, c)
	}
	return parts
}

// Finish counts a measured cell and returns a line about the progress. took is the time since the start of the cell.
func (p *Progress) Finish(c Cell, took time.Duration) string {
	for i := range p.rest {
		if p.rest[i] == c {
			p.rest = append(p.rest[:i:i], p.rest[i+1:]...)
			break
		}
	}
	p.measured++
	p.extra += took - c.minTime()
	return fmt.Sprintf("cell %d of %d: %s took %.0f s, %s left", p.total-len(p.rest), p.total, c, took.Seconds(), p.Remaining())
}

// Remaining estimates the time for the remaining cells, in whole minutes. Each cell needs its measurement and the mean extra time of the cells
// so far.
func (p *Progress) Remaining() string {
	extra := firstExtra
	if p.measured > 0 {
		extra = p.extra / time.Duration(p.measured)
	}
	sum := time.Duration(len(p.rest)) * extra
	for _, c := range p.rest {
		sum += c.minTime()
	}
	sum = sum.Round(time.Minute)
	return fmt.Sprintf("%d h %d min", int(sum.Hours()), int(sum.Minutes())%60)
}

// minTime is the time of a cell without the start and the end of its containers.
func (c Cell) minTime() time.Duration { return SettleTime + c.Work }
