package advise

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/candor-project/candor/bandwidth/timescale"
	"github.com/candor-project/candor/internal/interference"
	"github.com/candor-project/candor/internal/jsonout"
)

// A Report is the advice for a group.
type Report struct {
	Group        string
	HiddenDemand *timescale.HiddenDemand // nil: no limit throttled the group in the recording
	Mean         float64                 // mean demand in CPUs
	MaxThreads   int                     // maximum number of CPUs that the demand can use at once
	BusyWindows  int                     // number of windows of 100 ms with work
	Span         time.Duration           // length of the recording
	Hops         int                     // number of containers that handle each request in turn
	Ancestor     *timescale.Ancestor     // ancestor with the tightest limit; nil: no ancestor has a limit
	Phases       []timescale.Phase       // nil: the use has no phases
	Target       Target
	Outcomes     []Outcome
	Interference *interference.Report       // use of the group's CPUs by other processes; nil: low or unknown
	Record       func(time.Duration) string // returns the command that records the group for a time; nil: no command is known
}

// burstHelps and burstCosts are shares of a limit that a container uses on average. Below burstHelps, a burst reduces delays
// much, according to Alibaba's article on CPU Burst. Above burstCosts, other containers wait longer because of the burst.
// TestWhereBurstsHelp in package burst computes both values from the model.
const burstHelps, burstCosts = 0.5, 0.7

// Text writes the recommended setting with the commands for it, the use of the group and, if all is set, a table of the outcomes.
func (r *Report) Text(w io.Writer, all bool) error {
	var text strings.Builder
	if err := r.writeText(&text, all); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeText writes the report to w, whose methods never fail.
func (r *Report) writeText(w *strings.Builder, all bool) error {
	r.writeAnswer(w)
	fmt.Fprintf(w, "The recording lasts %s. The container used %s CPUs on average, and at most %d at once\n", timescale.Length(r.Span.Round(100*time.Millisecond)), timescale.Number(r.Mean), r.MaxThreads)
	r.writeCaveats(w)
	if !all {
		return nil
	}
	fmt.Fprintln(w)
	return r.writeTable(w)
}

// writeTable writes a row for each outcome.
func (r *Report) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LIMIT\tPERIOD\tBURST\tTHROTTLED\tDELAY P50\tDELAY P99\tOVERRUN\tMEETS")
	for _, o := range r.Outcomes {
		meets := ""
		if r.Target.IsMetBy(o) {
			meets = "yes"
			if r.shortage(o) != nil {
				meets = "too short"
			}
		}
		period, burst := timescale.Length(o.Period), timescale.Length(o.Burst)
		if o.Sensitive > 0 {
			period, burst = "-", "sensitive"
		}
		p99 := delay(o.P99)
		if o.Unmet {
			p99 = "grows"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f %%\t%s\t%s\t%s\t%s\n", milli(o.CPUs()), period, burst, 100*o.Throttled, delay(o.P50), p99, timescale.Length(o.Overrun), meets)
	}
	return t.Flush()
}

// writeCaveats writes the reasons why the advice can be wrong or must be read with care.
func (r *Report) writeCaveats(w io.Writer) {
	if h := r.HiddenDemand; h != nil {
		of := ""
		if r.Ancestor != nil && r.Ancestor.Used.Throttled > 0 {
			of = ", or that of the group above, " + r.aboveName()
		}
		fmt.Fprintf(w, "It was recorded under a limit%s, throttled in %.1f %% of the periods, which hides its demand. All figures are lower bounds; record it without a limit\n", of, 100*h.Share)
	}
	if r.Interference != nil {
		fmt.Fprintf(w, "During the recording, %s, which can hide its demand\n", r.Interference)
	}
	if r.Phases != nil {
		fmt.Fprintf(w, "Its use changes: %s. The advice is for all of it; --from and --to select one of these times\n", timescale.PhasesText(r.Phases))
	}
	if r.Hops > 1 {
		fmt.Fprintf(w, "Delays are those of a request through %d such containers in a row, each under the limit, and of its answer on the way back\n", r.Hops)
	}
}

// aboveLimit returns the limit of Ancestor in CPUs.
func (r *Report) aboveLimit() float64 {
	return float64(r.Ancestor.Quota) / float64(max(r.Ancestor.Period, 1))
}

func (r *Report) aboveName() string { return timescale.Printable(r.Ancestor.Name) }

// exceedsAbove reports whether an option reserves more CPUs than the limit of Ancestor.
func (r *Report) exceedsAbove(o Outcome) bool {
	return r.Ancestor != nil && r.Ancestor.Quota > 0 && o.CPUs() > r.aboveLimit()+1e-9
}

// Cheapest returns the cheapest outcome that has a bandwidth and meets the target, even if the recording is too short to verify this. If
// none meets the target, ok is false, and Cheapest returns the outcome that is nearest to the target.
func (r *Report) Cheapest() (best Outcome, ok bool) { return Cheapest(r.limited(), r.Target) }

// Reports holds the advice for several groups, and optionally a node with its fillings.
type Reports struct {
	List        []*Report
	Differences string // differences between the recordings' machines; "": none
	node        *Node
	fillings    []Filling
}

// Fill computes how many containers of the groups fit on a node. If a recording is too short for an answer, Fill does nothing,
// and the outputs omit the node.
func (r *Reports) Fill(n *Node) {
	if !slices.ContainsFunc(r.List, func(report *Report) bool { return report.Shortage() != nil }) {
		r.node, r.fillings = n, n.Fill(r.List)
	}
}

// Text writes all reports, with the tables of their outcomes if all is set, and the fillings of the node.
func (r *Reports) Text(w io.Writer, all bool) error {
	var text strings.Builder
	if r.Differences != "" {
		fmt.Fprintln(&text, r.Differences)
	}
	for i, report := range r.List {
		if i > 0 {
			fmt.Fprintln(&text)
		}
		if err := report.writeText(&text, all); err != nil {
			return err
		}
	}
	if r.node != nil {
		fmt.Fprintln(&text)
		if err := r.node.Text(&text, r.fillings); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// JSON encodes all reports, and the fillings of the node.
func (r *Reports) JSON(w io.Writer) error { return jsonout.Write(w, r.Document()) }

// Document returns the JSON form of the reports.
func (r *Reports) Document() *Document {
	out := &Document{Differences: r.Differences}
	if r.node != nil {
		out.NodeCPUs = r.node.CPUs
	}
	for _, f := range r.fillings {
		out.Fillings = append(out.Fillings, jsonFilling{f.Name, f.Containers, jsonout.Milli(f.Reserved), f.Short})
	}
	for _, report := range r.List {
		out.Reports = append(out.Reports, report.data())
	}
	return out
}

func milli(cpus float64) string { return fmt.Sprintf("%.0fm", 1000*cpus) }

func delay(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// String returns the option as a phrase for the user.
func (o Option) String() string {
	switch {
	case o.Sensitive == 1:
		return "1 CPU of its own, which is all that it sees"
	case o.Sensitive > 0:
		return fmt.Sprintf("%d CPUs of its own, which are all that it sees", o.Sensitive)
	case o.Burst > 0:
		return fmt.Sprintf("a limit of %s, %s of each %s, with a burst of %s", milli(o.CPUs()), o.Quota, o.Period, o.Burst)
	default:
		return fmt.Sprintf("a limit of %s, %s of each %s", milli(o.CPUs()), o.Quota, o.Period)
	}
}

// howTo returns the settings for an option, with a line for each tool.
func (o Option) howTo() string {
	if o.Sensitive > 0 {
		return fmt.Sprintf("  candor run --cpu %d\n  Kubernetes: requests and limits cpu: \"%[1]d\", annotation candor.dev/class: sensitive\n", o.Sensitive)
	}
	us := func(d time.Duration) int64 { return d.Microseconds() }
	run := fmt.Sprintf("  candor run --class flexible --cpu %s", milli(o.CPUs()))
	kubernetes := fmt.Sprintf("  Kubernetes: limits cpu: %s", milli(o.CPUs()))
	docker := fmt.Sprintf("  docker run --cpu-quota %d --cpu-period %d\n", us(o.Quota), us(o.Period))
	v2 := fmt.Sprintf("  cgroup v2: cpu.max %d %d", us(o.Quota), us(o.Period))
	if o.Period != 100*time.Millisecond {
		run += fmt.Sprintf(" --period %s", o.Period)
		kubernetes += fmt.Sprintf(", and annotation candor.dev/period: %s, or for the whole node kubelet's --cpu-cfs-quota-period=%[1]s", o.Period)
	}
	if o.Burst > 0 {
		run += fmt.Sprintf(" --burst %s", o.Burst)
		kubernetes += fmt.Sprintf(", and annotation candor.dev/burst: %s", o.Burst)
		docker = ""
		v2 += fmt.Sprintf(", cpu.max.burst %d", us(o.Burst))
	}
	return run + "\n" + kubernetes + "\n" + docker + v2 + "\n"
}

// The JSON form of reports. Amounts of CPU are in milli-CPU, times in seconds.
type (
	// Document is the JSON form of Reports.
	Document struct {
		Reports     []jsonReport  `json:"reports"`
		Differences string        `json:"unlikeMachines,omitempty"`
		NodeCPUs    int           `json:"nodeCPUs,omitempty"`
		Fillings    []jsonFilling `json:"fillings,omitempty"`
	}
	jsonFilling struct {
		Name       string  `json:"name"`
		Containers int     `json:"containers"`
		Reserved   float64 `json:"reservedMilli"` // sum of the containers' limits; 0: without limits
		Short      float64 `json:"shortShare"`
	}
	jsonReport struct {
		Group      string        `json:"group"`
		Hidden     bool          `json:"hiddenDemand"`
		Mean       float64       `json:"meanMilli"`
		MaxThreads int           `json:"maxThreads"`
		Hops       int           `json:"hops"`
		Above      float64       `json:"aboveLimitMilli,omitempty"` // the tightest limit of an ancestor
		Phases     int           `json:"phases"`                    // 1: the use has no phases
		Target     string        `json:"target"`
		Answer     *jsonAnswer   `json:"answer"`             // null: no setting meets the target, or the recording is too short
		Short      string        `json:"tooShort,omitempty"` // bound that the recording is too short to verify
		RecordFor  float64       `json:"recordForSeconds,omitempty"`
		Outcomes   []jsonOutcome `json:"outcomes"`
		Cheapest   *jsonOutcome  `json:"cheapest"` // outcome of the answer

		Interference *interference.Report `json:"interference,omitempty"`
	}
	jsonOutcome struct {
		Limit     float64 `json:"limitMilli"`
		Sensitive bool    `json:"sensitive"`
		Quota     float64 `json:"quotaSeconds,omitempty"`
		Period    float64 `json:"periodSeconds,omitempty"`
		Burst     float64 `json:"burstSeconds,omitempty"`
		Periods   uint64  `json:"periods"`
		Throttled float64 `json:"throttledShare"`
		Delay     float64 `json:"delayMeanSeconds"`
		P50       float64 `json:"delayP50Seconds"`
		P99       float64 `json:"delayP99Seconds"`
		Overrun   float64 `json:"overrunSeconds"`
		Unmet     bool    `json:"unmet"`
		Meets     bool    `json:"meets"`
	}
)

func (r *Report) data() jsonReport {
	out := jsonReport{Group: r.Group, Hidden: r.HiddenDemand != nil, Mean: jsonout.Milli(r.Mean), MaxThreads: r.MaxThreads, Target: r.Target.String(), Hops: max(r.Hops, 1), Phases: max(len(r.Phases), 1), Interference: r.Interference}
	if r.Ancestor != nil {
		out.Above = jsonout.Milli(r.aboveLimit())
	}
	for _, o := range r.Outcomes {
		out.Outcomes = append(out.Outcomes, r.json(o))
	}
	if best, isKnown := r.Answer(); isKnown {
		cheapest := r.json(best)
		out.Cheapest, out.Answer = &cheapest, r.answer(best)
	} else if s := r.Shortage(); s != nil {
		out.Short, out.RecordFor = s.String(), s.RecordFor().Seconds()
	}
	return out
}

func (r *Report) json(o Outcome) jsonOutcome {
	return jsonOutcome{
		Limit: jsonout.Milli(o.CPUs()), Sensitive: o.Sensitive > 0, Quota: o.Quota.Seconds(), Period: o.Period.Seconds(), Burst: o.Burst.Seconds(),
		Periods: o.Periods, Throttled: o.Throttled, Delay: o.Mean.Seconds(), P50: o.P50.Seconds(), P99: o.P99.Seconds(), Overrun: o.Overrun.Seconds(), Unmet: o.Unmet, Meets: r.Target.IsMetBy(o),
	}
}
