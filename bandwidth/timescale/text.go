package timescale

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Table returns a table with a row for each group and window length. The first row of a group has its name.
func (s *Summary) Table() (titles []string, rows [][]string) {
	titles = []string{"GROUP", "WINDOW", "WINDOWS", "MEAN", "P50", "P99", "PEAK", "PEAK/MEAN", "BURSTINESS"}
	for i := range s.Groups {
		g := &s.Groups[i]
		name := Printable(g.Name)
		for _, f := range g.Figures {
			if f.Windows == 0 {
				continue
			}
			p99 := "-" // with fewer than 100 windows, the 99th percentile would be the peak
			if f.Windows >= 100 {
				p99 = Number(f.P99)
			}
			rows = append(rows, []string{name, Length(f.Window), strconv.FormatInt(f.Windows, 10), Number(f.Mean), Number(f.P50), p99,
				Number(f.Peak), Number(f.PeakToMean), Number(f.Burstiness)})
			name = ""
		}
	}
	return titles, rows
}

// Remarks returns lines on the groups, such as on their limits.
func (s *Summary) Remarks() (lines []string) {
	for i := range s.Groups {
		for _, line := range s.Groups[i].remarks() {
			lines = append(lines, Printable(s.Groups[i].Name)+": "+line)
		}
	}
	return lines
}

// About returns a description of the recording and the cost of recording.
func (s *Summary) About() string {
	span := Length(s.Span.Round(time.Millisecond))
	if s.Part != (Part{}) {
		span = fmt.Sprintf("%s to %s of %s", Length(s.Part.From), Length(s.Part.clip(s.Span).Round(time.Millisecond)), span)
	}
	text := fmt.Sprintf("%s from %s on, a reading every %s; %d CPUs, Linux %s. Recording took %.2g %% of a CPU",
		span, s.Start.Format(time.RFC3339), Length(s.Interval), s.CPUs, Printable(s.Kernel), 100*cpus(s.CPU, s.Span))
	if s.Missed > 0 {
		text += fmt.Sprintf("; missed readings: %d", s.Missed)
	}
	if s.Cut {
		text += "; it has no end: its recorder still runs or was killed"
	}
	return text
}

// remarks returns facts about a group that the table does not show.
func (g *Group) remarks() (lines []string) {
	if g.Quota > 0 {
		line := fmt.Sprintf("limit %s CPUs, %s of each %s", Number(float64(g.Quota)/float64(max(g.Period, 1))), Length(g.Quota), Length(g.Period))
		if g.Burst > 0 {
			line += fmt.Sprintf(", burst %s", Length(g.Burst))
		}
		lines = append(lines, line)
	}
	if g.Used.Bursts > 0 {
		lines = append(lines, fmt.Sprintf("%d periods used more than the quota, %s in all", g.Used.Bursts, Length(g.Used.BurstTime.Round(time.Millisecond))))
	}
	if a := g.Ancestor; a != nil {
		lines = append(lines, fmt.Sprintf("the group above, %s, has a limit of %s CPUs, %s of each %s; it was throttled in %d of %d periods",
			Printable(a.Name), Number(float64(a.Quota)/float64(max(a.Period, 1))), Length(a.Quota), Length(a.Period), a.Used.Throttled, a.Used.Periods))
	}
	if g.HiddenDemand != nil && g.Used.ThrottledTime == 0 && g.Used.Throttled == 0 {
		lines = append(lines, "when that was throttled it waited: this shows its use, not its demand. Record it without that limit to see all")
	} else if h := g.HiddenDemand; h != nil {
		lines = append(lines, fmt.Sprintf("throttled in %d of %d periods (%.1f %%): this shows its use, not its demand. It used %s CPUs;"+
			" with the CPUs on which it waited, at least %s. Record it without a limit to see all",
			g.Used.Throttled, g.Used.Periods, 100*throttledShare(&g.Used), Number(h.Used), Number(h.Wanted)))
	}
	if phases := g.Phases(); phases != nil {
		lines = append(lines, "it changes: "+PhasesText(phases)+". --from and --to select one of these times")
	}
	return lines
}

// PhasesText returns the phases as a phrase for the user.
func PhasesText(phases []Phase) string {
	var parts []string
	for _, p := range phases {
		parts = append(parts, fmt.Sprintf("%s CPUs until %s", Number(p.Mean), Length(p.To.Round(100*time.Millisecond))))
	}
	return strings.Join(parts, ", ")
}

// Number formats a number of CPUs or a ratio with up to three digits.
func Number(v float64) string {
	switch {
	case v < 0.0005:
		return "0"
	case v < 0.01:
		return "<0.01"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

// Length formats a duration without zero parts at its end: 1m instead of 1m0s.
func Length(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Printable returns a text in which a space replaces each character that is not printable, such as a control character.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
