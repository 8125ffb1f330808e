package top

import (
	"cmp"
	"io"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/view"
)

// A Document is the JSON form of figures: docs/reference/json.md describes it. Unknown values are absent.
type Document struct {
	Partial    bool                `json:"partial,omitempty"` // a signal ended the interval early, so samples are missing
	During     float64             `json:"duringSeconds"`
	CPUs       []documentCPU       `json:"cpus"`
	Containers []documentContainer `json:"containers"`
	Strangers  []cpumap.ForeignUse `json:"strangers"`
}

type documentCPU struct {
	CPU       int           `json:"cpu"`
	Pool      string        `json:"pool"`
	Sensitive []string      `json:"sensitive,omitempty"`
	Flexible  bool          `json:"flexible"`
	Busy      *hybrid.Milli `json:"busyMilli,omitempty"`
}

type documentContainer struct {
	ID          string `json:"id"`
	DisplayName string `json:"name"`
	podname.Name
	State            string        `json:"state"`
	Class            hybrid.Class  `json:"class"`
	Limit            hybrid.Milli  `json:"limitMilli"` // 0: no limit
	CPUs             cpuset.Set    `json:"cpus"`
	Use              *hybrid.Milli `json:"useMilli,omitempty"`
	Helpers          *hybrid.Milli `json:"helpersMilli,omitempty"`
	Throttled        *float64      `json:"throttledShare,omitempty"`
	ThrottledAll     *float64      `json:"totalThrottledShare,omitempty"`
	UsageSeconds     float64       `json:"usageSeconds"`
	Periods          uint64        `json:"periods"`
	ThrottledPeriods uint64        `json:"throttledPeriods"`
	ThrottledSeconds float64       `json:"throttledSeconds"`
	view.Summary
}

// JSON writes figures as a JSON line.
func (u *UI) JSON(w io.Writer, f *Figures) error { return jsonout.WriteLine(w, u.Document(f)) }

// Document returns the JSON form of figures. The containers have the order that the user chose.
func (u *UI) Document(f *Figures) *Document {
	d := &Document{Partial: f.Partial, During: f.During.Seconds(), CPUs: []documentCPU{}, Containers: []documentContainer{},
		Strangers: append([]cpumap.ForeignUse{}, f.ForeignUses...)}
	for i := range f.CPUs {
		d.CPUs = append(d.CPUs, f.CPUs[i].document())
	}
	for _, r := range u.Visible(f.Rows) {
		d.Containers = append(d.Containers, r.document(f.Map.Names[r.ID]))
	}
	return d
}

func (u *CPU) document() documentCPU {
	d := documentCPU{CPU: u.CPU, Pool: u.Pool, Flexible: u.Flexible}
	for _, p := range u.Parts {
		d.Sensitive = append(d.Sensitive, p.ID)
	}
	if u.Busy.Known() {
		d.Busy = new(hybrid.Milli(float64(u.Busy)*1000 + 0.5))
	}
	return d
}

func (r *Row) document(name podname.Name) documentContainer {
	d := documentContainer{
		ID: r.ID, DisplayName: cmp.Or(name.String(), r.ID), Name: name, State: r.Condition, Class: r.Class, Limit: r.Limit, CPUs: r.CPUs,
		Throttled: r.Throttled.number(), ThrottledAll: r.ThrottledAll.number(),
		UsageSeconds: r.Stat.CPU.Seconds(), Periods: r.Stat.Periods,
		ThrottledPeriods: r.Stat.Throttled, ThrottledSeconds: r.Stat.ThrottledTime.Seconds(), Summary: r.SeenCPUs,
	}
	if r.Used {
		d.Use = new(hybrid.Milli(r.Use*1000 + 0.5))
	}
	if r.Helped {
		d.Helpers = new(hybrid.Milli(r.Helpers*1000 + 0.5))
	}
	return d
}

func (s Share) number() *float64 {
	if !s.Known() {
		return nil
	}
	return new(float64(s))
}
