package timescale

import (
	"encoding/json"
	"io"
	"time"

	"github.com/candor-project/candor/internal/interference"
)

// Types of the JSON encoding of a summary. A use is a number of CPUs, and a time is in seconds.
type (
	jsonSummary struct {
		Start           time.Time   `json:"start"`
		IntervalSeconds float64     `json:"intervalSeconds"`
		Seconds         float64     `json:"seconds"`
		CPUs            int         `json:"cpus"`
		Model           string      `json:"model,omitempty"`
		Kernel          string      `json:"kernel"`
		RecorderSeconds float64     `json:"recorderCPUSeconds"`
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
		Seconds          float64      `json:"seconds"`
		QuotaSeconds     float64      `json:"quotaSeconds,omitempty"`
		PeriodSeconds    float64      `json:"periodSeconds,omitempty"`
		BurstSeconds     float64      `json:"burstSeconds,omitempty"`
		CPUSeconds       float64      `json:"cpuSeconds"`
		Periods          uint64       `json:"periods"`
		Throttled        uint64       `json:"throttled"`
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
		Throttled     uint64  `json:"throttled"`
	}
	jsonPhase struct {
		FromSeconds float64 `json:"fromSeconds"`
		ToSeconds   float64 `json:"toSeconds"`
		Mean        float64 `json:"mean"`
	}
	jsonWindow struct {
		Seconds    float64  `json:"seconds"`
		Windows    int64    `json:"windows"`
		Mean       float64  `json:"mean"`
		P50        float64  `json:"p50"`
		P99        *float64 `json:"p99"` // null with fewer than 100 windows
		Peak       float64  `json:"peak"`
		PeakToMean float64  `json:"peakToMean"`
		Burstiness float64  `json:"burstiness"`
	}
	jsonHidden struct {
		ThrottledShare float64 `json:"throttledShare"`
		Used           float64 `json:"used"`
		WantedAtLeast  float64 `json:"wantedAtLeast"`
	}
)

// JSON encodes a summary.
func (s *Summary) JSON(w io.Writer) error {
	out := jsonSummary{
		Start: s.Start, IntervalSeconds: s.Interval.Seconds(), Seconds: s.Span.Seconds(), CPUs: s.CPUs, Model: s.Model, Kernel: s.Kernel,
		FromSeconds: s.Part.From.Seconds(), ToSeconds: s.Part.clip(s.Span).Seconds(),
		RecorderSeconds: s.CPU.Seconds(), Missed: s.Missed, Cut: s.Cut, Groups: []jsonGroup{}, Interference: s.Interference,
	}
	for i := range s.Groups {
		out.Groups = append(out.Groups, s.Groups[i].json())
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

func (g *Group) json() jsonGroup {
	out := jsonGroup{
		Name: g.Name, FromSeconds: g.From.Seconds(), Seconds: (g.To - g.From).Seconds(),
		QuotaSeconds: g.Quota.Seconds(), PeriodSeconds: g.Period.Seconds(), BurstSeconds: g.Burst.Seconds(),
		CPUSeconds: g.Used.CPU.Seconds(), Periods: g.Used.Periods, Throttled: g.Used.Throttled, ThrottledSeconds: g.Used.ThrottledTime.Seconds(),
		Bursts: g.Used.Bursts, BurstUsedSeconds: g.Used.BurstTime.Seconds(), Windows: []jsonWindow{},
	}
	for _, f := range g.Figures {
		p99 := &f.P99
		if f.Windows < 100 {
			p99 = nil
		}
		out.Windows = append(out.Windows, jsonWindow{f.Window.Seconds(), f.Windows, f.Mean, f.P50, p99, f.Peak, f.PeakToMean, f.Burstiness})
	}
	if h := g.HiddenDemand; h != nil {
		out.Hidden = &jsonHidden{h.Share, h.Used, h.Wanted}
	}
	if a := g.Ancestor; a != nil {
		out.Above = &jsonAbove{a.Name, a.Quota.Seconds(), a.Period.Seconds(), a.Used.Periods, a.Used.Throttled}
	}
	for _, p := range g.Phases() {
		out.Phases = append(out.Phases, jsonPhase{p.From.Seconds(), p.To.Seconds(), p.Mean})
	}
	return out
}
