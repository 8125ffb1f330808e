package web

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/survey"
)

// A nodeAnswer is a node with its containers.
type nodeAnswer struct {
	Node       string          `json:"node"`
	Problem    string          `json:"problem,omitempty"` // reason for a missing map
	SVG        string          `json:"svg,omitempty"`     // drawing of candor map -o svg, without its style sheet
	Style      string          `json:"style,omitempty"`   // style sheet of the drawing
	Containers []nodeContainer `json:"containers"`
	Notes      []string        `json:"notes"`
}

// A nodeContainer is a container on a node. The texts are for display; names are as the API server has them.
type nodeContainer struct {
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container"`
	Class     string `json:"class"`
	Limit     string `json:"limit"`
	CPUs      string `json:"cpus"` // "0-2,7:500m" for a sensitive container
	Sees      string `json:"sees"`
}

// errNoNode is the error for a node without a report.
var errNoNode = errors.New("no node of that name has a report")

// openNode returns a node. With isNamed, it reads the names of the pods on the node from the API server.
func openNode(ctx context.Context, s *reports, r apiserver.Reader, name string, isNamed bool) (*nodeAnswer, error) {
	status, err := s.get(name)
	if err != nil {
		return nil, err
	}
	if status == nil {
		return nil, errNoNode
	}
	a := &nodeAnswer{Node: name, Containers: []nodeContainer{}, Notes: []string{}}
	node, err := nodecpu.Node(status)
	if err != nil {
		a.Problem = err.Error()
		if !errors.Is(err, nodecpu.ErrNoReport) {
			a.Problem = "report of node cannot be used: " + a.Problem
		}
		return a, nil
	}
	m := cpumap.FromNode(node)
	m.SeenCPUs = survey.SeenCPUs(status)
	if !isNamed {
		a.Notes = append(a.Notes, "You cannot list pods, so containers have the UID of their pod.")
	} else if m.Names, err = namesOn(ctx, r, name); apierrors.IsForbidden(err) {
		a.Notes = append(a.Notes, "The names of the pods cannot be read: "+err.Error())
	} else if err != nil {
		return nil, err
	}
	var svg strings.Builder
	if err := m.UnstyledSVG(&svg); err != nil {
		return nil, err
	}
	a.SVG, a.Style = svg.String(), cpumap.SVGStyle
	a.addContainers(m)
	return a, nil
}

// addContainers adds the containers and the notes about them.
func (a *nodeAnswer) addContainers(m *cpumap.Map) {
	for i, c := range m.Document().Containers {
		g := &m.Grants[i]
		row := nodeContainer{
			Namespace: c.Namespace, Pod: c.Pod, Container: c.Container, Class: c.Class.String(), Limit: c.Limit.String(), CPUs: "shared " + c.CPUs.String(), Sees: c.Summary.String(),
		}
		if row.Container == "" {
			row.Container = c.ID
		}
		if c.Limit == 0 {
			row.Limit = "none"
		}
		if c.Class == hybrid.Sensitive {
			row.CPUs = nodecpu.FormatCPUs(g.Exclusive, g.Fractions)
		}
		if c.Note != "" {
			a.Notes = append(a.Notes, c.DisplayName+": "+c.Note)
		}
		a.Containers = append(a.Containers, row)
	}
}
