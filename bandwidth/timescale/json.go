package timescale

import (
	"io"
	"time"

	"github.com/candor-project/candor/internal/interference"
	"github.com/candor-project/candor/internal/jsonout"
)

// Types of the JSON encoding of a summary. Amounts of CPU are in milli-CPU, times in seconds.
type (
	// Document is the JSON form of a Summary.
	Document struct {
		Start           time.Time   `json:"start"`
		IntervalSeconds float64     `json:"intervalSeconds"`
		Seconds         float64     `json:"duringSeconds"`
		CPUs            int         `json:"cpus"`
		Model           string      `json:"model,omitempty"`
		Kernel          string      `json:"kernel"`
		RecorderSeconds float64     `json:"recorderUsageSeconds"`
		Missed          uint64      `json:"missedReadings"`
		Cut             bool        `json:"cut"`
		FromSeconds     float64     `json:"fromSeconds"` // start of the summarized part
		ToSeconds       float64     `json:"toSeconds"`
		Groups          []jsonGroup `json:"groups"`

		Interference *interference.Report `json:"interference,omitempty"`
	}
	jsonGroup struct {
		Name             string       `json:"name"`
		FromSeconds      float64      `json:"fromSeconds"`
		Seconds          float64      `json:"duringSeconds"`
		QuotaSeconds     float64      `json:"quotaSeconds,omitempty"`
		PeriodSeconds    float64      `json:"periodSeconds,omitempty"`
		BurstSeconds     float64      `json:"burstSeconds,omitempty"`
		CPUSeconds       float64      `json:"usageSeconds"`
		Periods          uint64       `json:"periods"`
		Throttled        uint64       `json:"throttledPeriods"`
		ThrottledSeconds float64      `json:"throttledSeconds"`
		Bursts           uint64       `json:"bursts"`
		BurstUsedSeconds float64      `json:"burstUsedSeconds"`
		Windows          []jsonWindow `json:"windows"`
		Hidden           *jsonHidden  `json:"hiddenDemand,omitempty"`
		Above            *jsonAbove   `json:"above,omitempty"`
		Phases           []jsonPhase  `json:"phases,omitempty"`
	}
	jsonAbove struct {
		Name          string  `json:"name"`
		QuotaSeconds  float64 `json:"quotaSeconds"`
		PeriodSeconds float64 `json:"periodSeconds"`
		Periods       uint64  `json:"periods"`
		Throttled     uint64  `json:"throttledPeriods"`
	}
	jsonPhase struct {
		FromSeconds float64 `json:"fromSeconds"`
		ToSeconds   float64 `json:"toSeconds"`
		Mean        float64 `json:"meanMilli"`
	}
	jsonWindow struct {
		Seconds    float64  `json:"seconds"`
		Windows    int64    `json:"windows"`
		Mean       float64  `json:"meanMilli"`
		P50        float64  `json:"p50Milli"`
		P99        *float64 `json:"p99Milli"` // null with fewer than 100 windows
		Peak       float64  `json:"peakMilli"`
		PeakToMean float64  `json:"peakToMean"`
		Burstiness float64  `json:"burstiness"`
	}
	jsonHidden struct {
		ThrottledShare float64 `json:"throttledShare"`
		Used           float64 `json:"usedMilli"`
		WantedAtLeast  float64 `json:"wantedAtLeastMilli"`
	}
)

// JSON encodes a summary.
func (s *Summary) JSON(w io.Writer) error { return jsonout.Write(w, s.Document()) }

// Document returns the JSON form of a summary.
func (s *Summary) Document() *Document {
	out := &Document{
		Start: s.Start, IntervalSeconds: s.Interval.Seconds(), Seconds: s.Span.Seconds(), CPUs: s.CPUs, Model: s.Model, Kernel: s.Kernel,
		FromSeconds: s.Part.From.Seconds(), ToSeconds: s.Part.clip(s.Span).Seconds(),
		RecorderSeconds: s.CPU.Seconds(), Missed: s.Missed, Cut: s.Cut, Groups: []jsonGroup{}, Interference: s.Interference,
	}
	for i := range s.Groups {
		out.Groups = append(out.Groups, s.Groups[i].json())
	}
	return out
}

func (g *Group) json() jsonGroup {
	out := jsonGroup{
		Name: g.Name, FromSeconds: g.From.Seconds(), Seconds: (g.To - g.From).Seconds(),
		QuotaSeconds: g.Quota.Seconds(), PeriodSeconds: g.Period.Seconds(), BurstSeconds: g.Burst.Seconds(),
		CPUSeconds: g.Used.CPU.Seconds(), Periods: g.Used.Periods, Throttled: g.Used.Throttled, ThrottledSeconds: g.Used.ThrottledTime.Seconds(),
		Bursts: g.Used.Bursts, BurstUsedSeconds: g.Used.BurstTime.Seconds(), Windows: []jsonWindow{},
	}
	for _, f := range g.Figures {
		w := jsonWindow{
			Seconds: f.Window.Seconds(), Windows: f.Windows, Mean: jsonout.Milli(f.Mean), P50: jsonout.Milli(f.P50), Peak: jsonout.Milli(f.Peak),
			PeakToMean: f.PeakToMean, Burstiness: f.Burstiness,
		}
		if f.Windows >= 100 {
			w.P99 = new(jsonout.Milli(f.P99))
		}
		out.Windows = append(out.Windows, w)
	}
	if h := g.HiddenDemand; h != nil {
		out.Hidden = &jsonHidden{h.Share, jsonout.Milli(h.Used), jsonout.Milli(h.Wanted)}
	}
	if a := g.Ancestor; a != nil {
		out.Above = &jsonAbove{a.Name, a.Quota.Seconds(), a.Period.Seconds(), a.Used.Periods, a.Used.Throttled}
	}
	for _, p := range g.Phases() {
		out.Phases = append(out.Phases, jsonPhase{p.From.Seconds(), p.To.Seconds(), jsonout.Milli(p.Mean)})
	}
	return out
}
