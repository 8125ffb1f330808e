// Package simreport formats the results of package simulate for the candor command: as a table, as JSON and CSV, and as the
// figures of the paper on Algorithm 1 (docs/allocator.md). A Report holds the points of a sweep, which is a series of simulations
// with different settings. A point is the result of one simulation. The package does not simulate.
package simreport

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/simulate"
)

// A Report holds the points of a sweep and their common settings.
type Report struct {
	Partial bool                 `json:"partial,omitempty"` // a signal stopped the simulation, so points are missing or incomplete
	Setting simulate.Description `json:"setting"`
	Points  []simulate.Result    `json:"points"`
	Gain    *simulate.Estimate   `json:"gain,omitempty"`
	Target  string               `json:"target,omitempty"` // goal of the search for the number of machines
}

// JSON writes the report as JSON.
func (r *Report) JSON(w io.Writer) error {
	if r.Points == nil {
		r.Points = []simulate.Result{}
	}
	return jsonout.Write(w, r)
}

// A column is a column of a table. value returns the cell of a point. rank orders the columns by importance (texttable.Table).
type column struct {
	title string
	rank  int
	value func(*simulate.Result) string
}

var columns = []column{
	{"ALGORITHM", 0, func(r *simulate.Result) string { return r.Algorithm + stopped(r) }},
	{"POLICY", 0, func(r *simulate.Result) string { return r.Policy }},
	{"SCHEDULER", 0, func(r *simulate.Result) string { return r.Scheduler }},
	{"SENSITIVE", 0, func(r *simulate.Result) string { return percent(r.Sensitive, 0) }},
	{"S", 0, func(r *simulate.Result) string { return percent(r.S, 2) }},
	{"S BOUND", 9, func(r *simulate.Result) string { return percent(r.SBound, 2) }},
	{"R", 0, func(r *simulate.Result) string { return percent(r.R, 2) }},
	{"R BOUND", 10, func(r *simulate.Result) string { return percent(r.RBound, 2) }},
	{"PLACED", 1, func(r *simulate.Result) string { return strconv.FormatInt(r.Placed, 10) }},
	{"NO VIEW", 4, func(r *simulate.Result) string { return strconv.FormatInt(r.RefusedView, 10) }},
	{"NO ROOM", 5, func(r *simulate.Result) string { return strconv.FormatInt(r.RefusedCapacity, 10) }},
	{"AGAIN", 11, func(r *simulate.Result) string { return strconv.FormatInt(r.Resubmitted, 10) }},
	{"LOAD", 3, func(r *simulate.Result) string { return percent(r.Load, 1) }},
	{"NODES", 2, func(r *simulate.Result) string { return fmt.Sprintf("%.0f", r.NodesUsed) }},
	{"MOVES", 6, func(r *simulate.Result) string { return strconv.FormatInt(r.Moves, 10) }},
	{"MEAN µs", 7, func(r *simulate.Result) string { return short(1e6 * r.DecisionMean) }},
	{"SENS. µs", 12, func(r *simulate.Result) string { return short(1e6 * r.DecisionSensitiveMean) }},
	{"P50 µs", 13, func(r *simulate.Result) string { return short(1e6 * r.DecisionP50) }},
	{"P99 µs", 8, func(r *simulate.Result) string { return short(1e6 * r.DecisionP99) }},
	{"EVENTS/s", 14, func(r *simulate.Result) string { return fmt.Sprintf("%.0f", r.EventsPerSecond) }},
}

// stopped returns a mark for a point whose simulation did not reach the end of the trace, otherwise "".
func stopped(r *simulate.Result) string {
	if r.Stopped {
		return fmt.Sprintf(" (stopped at %s h)", short(r.TraceSeconds/3600))
	}
	return ""
}

// percent formats a share with a number of decimals.
func percent(v float64, decimals int) string {
	s := strconv.FormatFloat(100*v, 'f', decimals, 64)
	if decimals == 0 { // a share that the user requested can have decimals
		s = strconv.FormatFloat(100*v, 'g', 4, 64)
	}
	return s + " %"
}

// short formats a number with three digits.
func short(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// partial is the first line of a report whose simulation was stopped.
const partial = "Partial result: the simulation was stopped before the end of the trace."

// Text writes a readable table. width is the width of the terminal; 0: all columns.
func (r *Report) Text(w io.Writer, width int) error {
	var b strings.Builder
	if r.Partial {
		fmt.Fprintln(&b, partial)
	}
	for _, line := range r.lines() {
		fmt.Fprintln(&b, line)
	}
	b.WriteByte('\n')
	var t texttable.Table
	for _, c := range columns {
		t.Titles, t.Ranks = append(t.Titles, c.title), append(t.Ranks, c.rank)
	}
	for i := range r.Points {
		t.Rows = append(t.Rows, cells(&r.Points[i]))
	}
	if err := t.Write(&b, width); err != nil {
		return err
	}
	for _, line := range r.after() {
		fmt.Fprint(&b, "\n", line, "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines returns a description of the settings. It cleans the names in the description, which are untrusted.
func (r *Report) lines() []string {
	list := r.Setting.Lines()
	for i := range list {
		list[i] = cpumap.Clean(list[i])
	}
	return list
}

// after returns the lines below the table.
func (r *Report) after() []string {
	var list []string
	if r.Target != "" {
		list = append(list, r.fewest())
	}
	if r.Gain != nil {
		list = append(list, r.Gain.Text())
	}
	return list
}

// fewest returns a text with the number of machines that each point needs for the target.
func (r *Report) fewest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The fewest machines, of the trace's mix, for %s:", r.Target)
	for i := range r.Points {
		p := &r.Points[i]
		fmt.Fprintf(&b, "\n  %s, %s, scheduler %s, %s sensitive: %d", p.Algorithm, p.Policy, p.Scheduler, percent(p.Sensitive, 0), p.Machines)
	}
	return b.String()
}

func cells(r *simulate.Result) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.value(r)
	}
	return list
}

// Markdown writes the table as Markdown.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	if r.Partial {
		fmt.Fprintf(&b, "%s\n\n", partial)
	}
	for _, line := range r.lines() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\n|")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", strings.ToLower(c.title))
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(columns)) + "\n")
	for i := range r.Points {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells(&r.Points[i]), " | "))
	}
	for _, line := range r.after() {
		fmt.Fprint(&b, "\n", line, "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// CSV writes the points with the names of their JSON fields, and the settings that affect the results.
func (r *Report) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	for i := range r.Points {
		names, values, err := fields(&r.Points[i])
		if err != nil {
			return err
		}
		if i == 0 {
			if err := c.Write(append([]string{"trace", "coresOfLargest", "overcommit", "atStart", "seed"}, names...)); err != nil {
				return err
			}
		}
		s := &r.Setting
		own := []string{s.Trace, strconv.FormatFloat(s.CoresOfLargest, 'g', -1, 64), strconv.FormatFloat(s.Overcommit, 'g', -1, 64),
			s.AtStart, strconv.FormatUint(s.Seed, 10)}
		if err := c.Write(append(own, values...)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// fields returns the names and values of a point's JSON fields, in order.
func fields(r *simulate.Result) (names, values []string, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if _, err := d.Token(); err != nil {
		return nil, nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		value, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		names, values = append(names, fmt.Sprint(name)), append(values, fmt.Sprint(value))
	}
	return names, values, nil
}
