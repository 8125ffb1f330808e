package main

import (
	"fmt"
	"io"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/view"
)

// An observer observes the CPUs that a container sees. *host.Host implements it.
type observer interface {
	Observe(*host.Grant) (host.Observation, error)
}

// observe returns the CPUs that a running container sees. It returns a zero observation for a container that does not run, that has just
// ended, or whose cgroup cannot be read.
func observe(h observer, g *host.Grant) host.Observation {
	if g.State != host.Running {
		return host.Observation{}
	}
	o, err := h.Observe(g)
	if err != nil {
		return host.Observation{}
	}
	return o
}

// settling is the time within which an operation that has changed a cgroup also changes the view. While a container starts, is resized or
// moves, cgroup and view differ for a moment, and an observation then has a note.
const settling = 100 * time.Millisecond

// observeAll observes the containers. It observes containers with a note once more after settling, because an operation in progress can be
// the cause of the note.
func observeAll(h observer, grants []host.Grant) []host.Observation {
	all := make([]host.Observation, len(grants))
	hasNote := false
	for i := range grants {
		all[i] = observe(h, &grants[i])
		hasNote = hasNote || all[i].Note != ""
	}
	if !hasNote {
		return all
	}
	time.Sleep(settling)
	for i := range grants {
		if all[i].Note != "" {
			all[i] = observe(h, &grants[i])
		}
	}
	return all
}

// seenBy returns the CPU counts that the containers see, by ID.
func seenBy(h observer, grants []host.Grant) map[string]view.Summary {
	seen := make(map[string]view.Summary, len(grants))
	all := observeAll(h, grants)
	for i := range grants {
		seen[grants[i].ID] = all[i].Summary()
	}
	return seen
}

// writeSeenNotes writes the notes on the CPUs that containers see, a line each.
func writeSeenNotes(w io.Writer, rows []grantRow) {
	for i := range rows {
		if r := &rows[i]; r.Note != "" {
			fmt.Fprintf(w, "candor: %s sees %s: %s\n", r.name(), r.Summary, errorText(r.Note))
		}
	}
}

// foreignContainers returns the engines' running containers without a grant. It finds them as candor audit does. The result is
// not nil, unless there is an error.
func foreignContainers(options *host.Options, grants []host.Grant) ([]cpumap.Foreign, error) {
	tree, err := cgroup.Open(options.Cgroup)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	all, err := audit.Read(tree)
	if err != nil {
		return nil, err
	}
	foreign := withoutGrant(all, grants)
	audit.Observe(foreign, state.Store{Dir: options.StateDir}.ViewsDir())
	list := []cpumap.Foreign{}
	for i := range foreign {
		c := &foreign[i]
		list = append(list, cpumap.Foreign{
			Name: c.Name, Parts: podname.PartsOf(c.Name, c.ID), ID: c.ID, Runtime: c.Runtime, Group: c.Group, Limit: c.Limit, CPUs: c.CPUs, Summary: c.SeenCPUs(),
		})
	}
	return list, nil
}

// withoutGrant returns the containers that are not in Candor's own cgroups and have no grant.
func withoutGrant(all []audit.Container, grants []host.Grant) (foreign []audit.Container) {
	managed := map[string]bool{}
	for i := range grants {
		managed[grants[i].Engine.Cgroup] = true
	}
	for i := range all {
		if c := &all[i]; c.Runtime != "candor" && !managed[c.Group] {
			foreign = append(foreign, *c)
		}
	}
	return foreign
}
