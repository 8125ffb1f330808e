// Package auditreport has the rows of candor audit, so that other programs can read its JSON output.
package auditreport

import (
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/internal/seencpus"
)

// Gain estimates whether a container would gain from a view that matches its limit.
type Gain string

// The estimates. Other values are treated as No.
const (
	Likely Gain = "likely" // the container has more threads than CPUs in its limit, and was throttled
	Maybe  Gain = "maybe"  // the container has more threads than CPUs in its limit, and was not throttled
	No     Gain = "no"
)

// A Row is the row of a container in the output of candor audit. Scripts depend on its JSON form, which docs/audit.md describes
// field by field.
type Row struct {
	Name             string       `json:"name"`
	podname.Parts                 // absent if the container has no name beside its ID
	ID               string       `json:"id"`
	Runtime          string       `json:"runtime,omitempty"` // absent if it is unknown
	Group            string       `json:"group"`
	CPUs             cpuset.Set   `json:"cpus"`
	Sees             int          `json:"sees"`                // CPUs in the affinity
	SeesFiles        int          `json:"seesFiles,omitempty"` // CPUs in the files of /proc and /sys; absent if unknown
	SeesNote         string       `json:"seesNote,omitempty"`  // reason and remedy if the settings do not explain a difference
	Limit            hybrid.Milli `json:"limitMilli"`          // 0: no limit
	LimitedBy        string       `json:"limitedBy,omitempty"`
	Processes        int          `json:"processes"`
	Threads          int          `json:"threads"`
	Periods          uint64       `json:"periods"`
	ThrottledPeriods uint64       `json:"throttledPeriods"`
	Throttled        float64      `json:"throttledShare"` // share of the periods in which the quota ran out
	ThrottledTime    float64      `json:"throttledSeconds"`
	Differs          bool         `json:"differs"`
	Gain             Gain         `json:"gain"`
	// Helpers is the CPU use of the container's helpers in milli-CPU; absent if it was not measured.
	Helpers *hybrid.Milli `json:"helpersMilli,omitempty"`
}

// SeenCPUs returns the CPU counts that the container sees.
func (r *Row) SeenCPUs() seencpus.Summary {
	return seencpus.Summary{Affinity: r.Sees, Files: r.SeesFiles}
}
