package auditreport

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/texttable"
)

// TextOptions are the options of Text.
type TextOptions struct {
	Width int // of the terminal, in characters; 0: unlimited
	Rows  int // maximum number of containers; 0: unlimited
}

// Text writes the tables of the containers, the namespaces and the nodes without an answer.
func (c *Cluster) Text(w io.Writer, o TextOptions) error {
	var b strings.Builder // writes to it cannot fail
	if shown := c.shown(o.Rows); len(shown) > 0 {
		_ = containerTable(shown).Write(&b, o.Width)
		if more := len(c.Containers) - len(shown); more > 0 {
			fmt.Fprintf(&b, "%d more; --rows 0 lists all containers.\n", more)
		}
		b.WriteString("\n")
	}
	if len(c.Namespaces) > 0 {
		_ = c.namespaceTable().Write(&b, o.Width)
		b.WriteString("\n")
	}
	if problems := c.problemTable(); len(problems.Rows) > 0 {
		_ = problems.Write(&b, o.Width)
		b.WriteString("\n")
	}
	b.WriteString(c.Summary() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Cluster) shown(maxRows int) []Container {
	if maxRows == 0 {
		return c.Containers
	}
	return c.Containers[:min(maxRows, len(c.Containers))]
}

func containerTable(rows []Container) *texttable.Table {
	t := &texttable.Table{
		Titles: []string{"NODE", "CONTAINER", "SEES", "LIMIT", "THREADS", "THROTTLED", "LOST", "GAIN"},
		Ranks:  []int{3, 0, 0, 0, 4, 1, 2, 0},
	}
	for i := range rows {
		r := &rows[i]
		t.Rows = append(t.Rows, []string{cpumap.Clean(r.Node), cpumap.Clean(r.Name), r.SeenCPUs().String(), limitText(r.Limit), strconv.Itoa(r.Threads),
			percent(r.Throttled), Lost(r.ThrottledTime), r.gain()})
	}
	return t
}

// gain returns the estimate. A value that candor does not print counts as No.
func (r *Row) gain() string {
	switch r.Gain {
	case Likely, Maybe:
		return string(r.Gain)
	}
	return string(No)
}

func (c *Cluster) namespaceTable() *texttable.Table {
	t := &texttable.Table{Titles: []string{"NAMESPACE", "CONTAINERS", "DIFFER", "LIKELY GAIN", "LOST"}, Ranks: []int{0, 1, 0, 0, 0}}
	for _, n := range c.Namespaces {
		t.Rows = append(t.Rows, []string{n.title(), strconv.Itoa(n.Containers), strconv.Itoa(n.Differing), strconv.Itoa(n.Likely), Lost(n.ThrottledTime)})
	}
	return t
}

func (n *Namespace) title() string { return cmp.Or(cpumap.Clean(n.Namespace), "(no pod)") }

func (c *Cluster) problemTable() *texttable.Table {
	t := &texttable.Table{Titles: []string{"NODE WITHOUT ANSWER", "REASON"}, LastWidth: 30}
	for _, n := range c.Nodes {
		if n.Problem != "" {
			t.Rows = append(t.Rows, []string{cpumap.Clean(n.Name), cpumap.Clean(n.Problem)})
		}
	}
	return t
}

// Summary returns the numbers of containers and nodes in a sentence.
func (c *Cluster) Summary() string {
	total, answered := c.Total(), 0
	for _, n := range c.Nodes {
		if n.Problem == "" {
			answered++
		}
	}
	return fmt.Sprintf("%d of %d containers see a CPU count that differs from the limit, %d would likely gain, %s of CPU time are lost. %d of %d nodes answered.",
		total.Differing, total.Containers, total.Likely, Lost(total.ThrottledTime), answered, len(c.Nodes))
}

// csvTitles are the columns of CSV.
var csvTitles = []string{"node", "namespace", "pod", "container", "name", "runtime", "sees", "seesFiles", "limitMilli", "threads",
	"periods", "throttledPeriods", "throttledShare", "throttledSeconds", "differs", "gain"}

// CSV writes a line for each container. A name that a spreadsheet would evaluate as a formula gets an apostrophe.
func (c *Cluster) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(csvTitles) // Error reports a failed write
	for i := range c.Containers {
		r := &c.Containers[i]
		_ = out.Write([]string{cell(r.Node), cell(r.Namespace), cell(r.Pod), cell(r.Container), cell(r.Name), cell(r.Runtime), strconv.Itoa(r.Sees), strconv.Itoa(r.SeesFiles),
			strconv.FormatInt(int64(r.Limit), 10), strconv.Itoa(r.Threads), strconv.FormatUint(r.Periods, 10), strconv.FormatUint(r.ThrottledPeriods, 10),
			strconv.FormatFloat(r.Throttled, 'f', 4, 64), strconv.FormatFloat(r.ThrottledTime, 'f', 3, 64), strconv.FormatBool(r.Differs), r.gain()})
	}
	out.Flush()
	return out.Error()
}

// cell returns a text for a cell of a spreadsheet.
func cell(text string) string {
	text = cpumap.Clean(text)
	if strings.IndexAny(text, "=+-@") == 0 {
		return "'" + text
	}
	return text
}

func limitText(m hybrid.Milli) string {
	if m == 0 {
		return "-"
	}
	return m.String()
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// Lost formats a throttled time, in seconds: 1.5s, 12m, 3h, 2d.
func Lost(seconds float64) string {
	const maxSeconds = 1e9 // 30 years of all CPUs
	d := time.Duration(min(seconds, maxSeconds) * float64(time.Second))
	switch {
	case d < 2*time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
