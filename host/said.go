package host

import (
	"fmt"
	"strings"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
)

// What people are told of containers.

// Condition returns the state of a container for display: its State, or "ended" if the next operation
// takes its CPUs back, or "degraded" if it has lost CPUs or its topology, or if a setting is not as granted.
func (g *Grant) Condition(look *Look) string {
	switch {
	case g.State == Running && len(look.Processes) == 0 && !g.Creator.Alive():
		return "ended"
	case !g.Lost.IsEmpty(), g.Policy == hybrid.Strict && !g.WishKept, len(look.Differences) > 0:
		return "degraded"
	default:
		return string(g.State)
	}
}

// PodName is the container's name in its pod; zero, if it is in none.
func (e *Engine) PodName() podname.Name { return podname.Parse(e.Name) }

// PodNames are the names of the containers that are in pods, by ID.
func (s *Snapshot) PodNames() map[string]podname.Name {
	names := map[string]podname.Name{}
	for i := range s.Grants {
		if name := s.Grants[i].Engine.PodName(); name != (podname.Name{}) {
			names[s.Grants[i].ID] = name
		}
	}
	return names
}

// Beside says what is beside the grants, in a line: groups of another state, or groups without one. "" is nothing.
func (s *Snapshot) Beside() string {
	switch {
	case s.Owner != "":
		return fmt.Sprintf("the groups here belong to the state in %s: --state-dir %[1]s shows them", s.Owner)
	case len(s.Strays) == 1:
		return fmt.Sprintf("1 group runs without a state: %s; the next run, resize or release adopts what runs", s.Strays[0])
	case len(s.Strays) > 1:
		return fmt.Sprintf("%d groups run without a state: %s; the next run, resize or release adopts what runs",
			len(s.Strays), strings.Join(s.Strays, ", "))
	default:
		return ""
	}
}
