package simulate

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/candor-project/candor/trace"
)

// A Description describes the setting of a simulation: the trace, the machines and the treatment of containers. Every report
// contains it.
type Description struct {
	Trace string `json:"trace"` // specification with which the trace was opened
	Name  string `json:"name"`  // name of the trace, such as "google2011"

	CoresOfLargest float64 `json:"coresOfLargest,omitempty"` // CPUs of the largest machine, if the trace has only fractions of this machine
	MachineCPUs    string  `json:"machineCpus"`              // conversion of machine sizes to whole CPUs
	Overcommit     float64 `json:"overcommit"`
	OvercommitIs   string  `json:"overcommitIs"`       // the quantities that the overcommit factor multiplies
	AtStart        string  `json:"atStart"`            // treatment of the containers at time 0
	Machines       int     `json:"machines,omitempty"` // Setting.Machines
	Topology       string  `json:"topology"`           // of each machine
	Refused        string  `json:"refused"`            // treatment of refused containers
	Removed        string  `json:"removed"`            // treatment of the containers of a removed machine

	Sensitive string `json:"sensitive"` // selection of the sensitive containers
	Seed      uint64 `json:"seed"`

	Report *trace.Report `json:"report,omitempty"` // the parts of the source that the events do not contain
}

// Describe describes a setting for a trace with this header. The parameter sensitive is a text about the selection of the
// sensitive containers.
func (s *Setting) Describe(h trace.Header, sensitive string) Description {
	d := Description{
		Trace: h.Source, Name: h.Name,
		MachineCPUs:  "rounded down to whole CPUs",
		Overcommit:   s.Overcommit,
		OvercommitIs: "multiplies machines' CPUs before they are rounded; requests and memory stay",
		AtStart:      "placed by the scheduler, in the trace's order",
		Machines:     s.Machines,
		Topology:     "one NUMA node, each CPU a core",
		Refused:      "dropped",
		Removed:      "containers of a machine that goes are submitted again",
		Sensitive:    sensitive,
		Seed:         s.Seed,
	}
	if h.Unit == trace.LargestMachine {
		d.CoresOfLargest = s.CoresOfLargest
	}
	return d
}

// Lines formats the description as lines of text.
func (d *Description) Lines() []string {
	cpus := "CPUs as the trace has them"
	if d.CoresOfLargest > 0 {
		cpus = "1.0 = " + formatNumber(d.CoresOfLargest) + " CPUs"
	}
	if d.Machines > 0 {
		cpus = fmt.Sprintf("%d machines, %s", d.Machines, cpus)
	}
	lines := []string{
		fmt.Sprintf("%s (%s): %s, machines %s", d.Name, d.Trace, cpus, d.MachineCPUs),
		fmt.Sprintf("overcommit %s: %s", formatNumber(d.Overcommit), d.OvercommitIs),
		fmt.Sprintf("t = 0: %s; refused: %s", d.AtStart, d.Refused),
		fmt.Sprintf("sensitive: %s; seed %d", d.Sensitive, d.Seed),
	}
	if d.Report != nil {
		for _, c := range slices.Concat(d.Report.Skipped, d.Report.NotModelled) {
			lines = append(lines, fmt.Sprintf("left out: %d %s, the first at %s", c.N, c.Reason, c.First))
		}
	}
	return lines
}

// formatNumber formats a number with as few digits as possible.
func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
