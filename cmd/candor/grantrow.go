package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
	"github.com/candor-project/candor/cmd/candor/internal/planio"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/spec"
)

// A grantRow is a container as ps and inspect write it. Its JSON form is an
// interface: docs/reference/json.md describes it, field by field.
type grantRow struct {
	ID           string                `json:"id"`
	podname.Name                       // absent for a container in no pod
	State        string                `json:"state"`             // pending, running, held, ended, degraded
	Degraded     []host.Difference     `json:"degraded,omitzero"` // settings that are not as granted
	Class        hybrid.Class          `json:"class"`
	Policy       hybrid.Policy         `json:"policy"`
	Topology     hybrid.TopologyPolicy `json:"topology"`
	TopologyKept bool                  `json:"topologyKept"`
	Limit        hybrid.Milli          `json:"limit"`   // 0: none
	Request      hybrid.Milli          `json:"request"` // the guarantee
	CPUs         cpuset.Set            `json:"cpus"`
	Exclusive    cpuset.Set            `json:"exclusive"`
	Fractions    planio.Fractions      `json:"fractions,omitzero"` // absent for a flexible container
	Quota        hybrid.Milli          `json:"quota,omitempty"`    // absent where none is set
	Weight       hybrid.Milli          `json:"weight"`
	Lost         cpuset.Set            `json:"lost"` // CPUs that it had, and the machine no longer has
	View         spec.View             `json:"view"`
	OnResize     string                `json:"onResize"`
	Burst        string                `json:"burst"`         // none, kernel, quota, auto or a time
	PID          int                   `json:"pid,omitempty"` // of the program's first process; absent where Candor did not start it
	PIDs         []int                 `json:"pids"`
	Age          float64               `json:"ageSeconds"`
	Command      string                `json:"command"`
}

func newGrantRow(g *host.Grant, look *host.ContainerState, now time.Duration) grantRow {
	row := grantRow{
		ID: g.ID, Name: g.Engine.PodName(), State: look.Condition(g), Degraded: look.Differences, Class: g.Class, Policy: g.Policy, Topology: g.Topology, TopologyKept: g.TopologyMet,
		Limit: g.Limit, Request: g.Guaranteed(), CPUs: g.CPUs, Exclusive: g.Exclusive, Quota: g.Quota, Weight: g.Weight,
		Lost: g.Lost, View: g.View, OnResize: g.OnResize, Burst: g.Burst.String(), PID: g.Main.PID,
		PIDs: append([]int{}, look.Processes...), Age: (now - g.Since).Seconds(), Command: g.Command,
	}
	if g.Class == hybrid.Sensitive {
		row.Fractions = append(planio.Fractions{}, g.Fractions...)
	}
	return row
}

// read replaces the program's name by its command line and a command's file by the command, if the caller may read them.
func (r *grantRow) read(h *host.Host, g *host.Grant) {
	r.Command, r.OnResize = h.CommandLine(g), h.OnResize(g)
}

// name returns the display name of the container without control characters.
func (r *grantRow) name() string { return cpumap.Clean(cmp.Or(r.Name.String(), r.ID)) }

// command is the command line for a table. The stored command of a container in a pod is its name, which is in the table already, unless
// the caller may read more.
func (r *grantRow) command() string {
	if r.Command == r.Name.String() {
		return ""
	}
	return errorText(shorten(r.Command, 50))
}

// age returns the time since the container got its CPUs, such as 12m.
func (r *grantRow) age() string { return age(time.Duration(r.Age * float64(time.Second))) }

// sayStrays reports cgroups that a snapshot does not list on standard error.
func sayStrays(cmd *cobra.Command, s *host.Snapshot) {
	if beside := s.Warning(); beside != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "candor:", errorText(beside))
	}
}

// errorText is text from outside, without control characters.
func errorText(s string) string { return errorLine(fmt.Errorf("%s", s)) }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// age writes a time span as people do: 5s, 12m, 3h, 2d.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
