package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/internal/cputext"
)

// drawContainer draws the details of a container: its grant, its use, its CPUs and its threads.
func (u *UI) drawContainer(c *canvas, f *Figures, rows int) {
	in := f.Inside
	if in == nil {
		c.put(Style{}, fmt.Sprintf("%s has ended.", cpumap.Clean(u.Inside)))
		c.newline()
		return
	}
	r := in.Row
	c.put(Style{Bold: true}, r.Name)
	if r.Name != r.ID {
		c.put(Style{Dim: true}, "  "+cpumap.Clean(r.ID))
	}
	c.newline()
	for _, line := range [][2]string{{"class", r.describeState()}, {"CPUs", r.describeGrant()}, {"sees", r.describeSeen()}, {"group", r.describeCgroup()}, {"uses", r.describeUse()}} {
		c.put(Style{Dim: true}, fmt.Sprintf("%-7s", line[0]))
		c.put(Style{}, line[1])
		c.newline()
	}
	own := Figures{Map: f.Map}
	for _, cpu := range f.CPUs {
		if r.CPUs.Contains(cpu.CPU) {
			own.CPUs = append(own.CPUs, cpu)
		}
	}
	c.lines = append(c.lines, cpuMap(&own, c.columns, max(1, (rows-len(c.lines))/3), c.ascii)...)
	u.threads(c, in, rows-len(c.lines)-1)
}

// describeState describes the class, the policy, the condition and the limit of the container.
func (r *Row) describeState() string {
	text := fmt.Sprintf("%s, %s · %s", r.Class, r.Policy, r.Condition)
	if r.Limit > 0 {
		text += fmt.Sprintf(" · limit %s", r.Limit)
	}
	return text + fmt.Sprintf(" · processes: %d", len(r.Processes))
}

// describeGrant describes the CPUs of the container's grant.
func (r *Row) describeGrant() string {
	var text strings.Builder
	text.WriteString(cmp.Or(r.CPUs.String(), "none"))
	if !r.Exclusive.IsEmpty() {
		text.WriteString(" · exclusive: " + r.Exclusive.String())
	}
	for _, part := range r.Fractions {
		fmt.Fprintf(&text, " · %dm of %d", int64(part.Milli), part.CPU)
	}
	return text.String()
}

// describeSeen describes the CPUs that the container sees.
func (r *Row) describeSeen() string {
	text := r.SeenCPUs.String()
	if r.SeenCPUs.Note != "" {
		text += " · " + cpumap.Clean(r.SeenCPUs.Note)
	}
	return text
}

// describeCgroup describes the settings of the container's cgroup.
func (r *Row) describeCgroup() string {
	if !r.Exists {
		return "none"
	}
	s := &r.Settings
	text := cputext.CPUs(s.CPUs) + " · no quota"
	if s.Quota > 0 {
		text = fmt.Sprintf("%s · quota %v per %v", cputext.CPUs(s.CPUs), s.Quota, s.Period)
	}
	if s.Burst > 0 {
		text += fmt.Sprintf(" · burst %v", s.Burst)
	}
	return text + fmt.Sprintf(" · weight %d", s.Weight)
}

// describeUse describes the CPU use and the throttling of the container.
func (r *Row) describeUse() string {
	text := "-"
	if r.Used {
		text = fmt.Sprintf("%.2f CPUs", r.Use)
	}
	if r.Helped {
		text += fmt.Sprintf(", %.2f more by helpers", r.Helpers)
	}
	if r.LimitShare.Known() {
		text += fmt.Sprintf(", %s of its limit", r.LimitShare.percent())
	}
	if r.Throttled.Known() {
		text += fmt.Sprintf(" · throttled %s", r.Throttled.percent())
	}
	if r.ThrottledAll.Known() {
		text += fmt.Sprintf(" · in all %s, %v", r.ThrottledAll.percent(), r.Stat.ThrottledTime.Round(10*time.Millisecond))
	}
	return text
}

// threads draws the threads around the cursor, in at most maxLines lines.
func (u *UI) threads(c *canvas, in *Details, maxLines int) {
	c.put(Style{Dim: true}, fmt.Sprintf("%8s %8s %4s %5s  %s", "TID", "PID", "CPU", "USE", "THREAD"))
	if in.Row.HasMoreThreads {
		c.put(Style{Bold: true}, fmt.Sprintf("  the first %d", len(in.Threads)))
	}
	c.newline()
	if maxLines <= 0 {
		return
	}
	u.threadCursor = max(0, min(u.threadCursor, len(in.Threads)-1))
	first, last := window(u.threadCursor, len(in.Threads), maxLines)
	for i := first; i < last; i++ {
		t := &in.Threads[i]
		s := Style{Reverse: i == u.threadCursor}
		c.put(s, fmt.Sprintf("%8d %8d %4d %5s  %s", t.ID, t.PID, t.CPU, t.Use.percent(), cpumap.Clean(t.Name)))
		c.newline()
	}
}
