package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/profile"
	"github.com/candor-project/candor/kube/survey"
)

const whyLong = `Explain the CPUs of a pod: the class of each container and the source of the class, the
node, and the CPUs on the node. For a pending pod, the command shows for each node whether
the pod fits, or why it does not.

A container that should be sensitive can be flexible. The column WHY FLEXIBLE then has the
reason: it has no CPU limit, or its request differs from its limit.`

const whyExample = `  kubectl candor why web-0 -n shop
  kubectl candor why web-0 -n shop -o json | jq -r '.containers[].sources[0].source'`

func newWhyCommand(a *access) *cobra.Command {
	cmd := &cobra.Command{Use: "why POD", Short: "Explain the CPUs of a pod, or why it waits", Long: whyLong, Example: whyExample, Args: oneArg("POD")}
	output := outputFlag(cmd, "table", "wide", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		e, err := explain(cmd.Context(), a, c, args[0])
		if err != nil {
			return err
		}
		if output.value == "json" {
			return jsonout.Write(cmd.OutOrStdout(), e)
		}
		return e.write(cmd.OutOrStdout(), tableWidth(output))
	}
	return cmd
}

// An explanation is the output of why.
type explanation struct {
	Namespace  string              `json:"namespace"`
	Pod        string              `json:"pod"`
	Phase      string              `json:"phase"`
	Node       string              `json:"node,omitempty"` // "": the pod waits
	Problem    string              `json:"problem,omitempty"`
	Scheduler  string              `json:"schedulerName"`
	Message    string              `json:"message,omitempty"` // of the scheduler, for a pending pod
	Containers []containerWhy      `json:"containers"`
	Refusal    string              `json:"refusal,omitempty"` // of all nodes together, for a pending pod
	Nodes      *[]survey.Candidate `json:"nodes,omitempty"`   // for a pending pod
	Notes      []string            `json:"notes"`
	Unread     []string            `json:"notLookedAt"`
	answer     *survey.Result      // nil for a pod on a node
}

// A containerWhy explains the CPUs of a container.
type containerWhy struct {
	Name        string           `json:"name"`
	Asked       string           `json:"asked"`                 // class by its sources
	Sources     []profile.Source `json:"sources"`               // of the class; the first counts
	Class       string           `json:"class,omitempty"`       // class that the container has on its node; absent if unknown
	WhyFlexible string           `json:"whyFlexible,omitempty"` // reason why Class is not Asked
	Limit       hybrid.Milli     `json:"limitMilli"`            // 0: no limit
	CPUs        string           `json:"cpus,omitempty"`        // such as 0-2,7:500m; absent if unknown
	Sees        string           `json:"sees,omitempty"`        // such as 4, or 1/4 if affinity and files differ
	Note        string           `json:"note,omitempty"`
}

// podFacts are facts of a pod that podcpu.Pod does not have.
type podFacts struct {
	Spec   struct{ SchedulerName string }
	Status struct {
		Conditions []struct{ Type, Reason, Message string }
	}
}

// explain reads a pod, and the cluster if the pod waits.
func explain(ctx context.Context, a *access, c *cluster, name string) (*explanation, error) {
	p, facts, err := readExplained(ctx, a, c, name)
	if err != nil {
		return nil, err
	}
	sources, err := survey.ReadSources(ctx, c, p.Metadata.Namespace)
	if err != nil {
		return nil, err
	}
	s, err := survey.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	e := &explanation{
		Namespace: p.Metadata.Namespace, Pod: p.Metadata.Name, Phase: p.Status.Phase, Node: p.Spec.NodeName, Scheduler: facts.Spec.SchedulerName,
		Containers: []containerWhy{}, Notes: append([]string{}, sources.Notes...), Unread: []string{},
	}
	demand, err := podcpu.Read(p, sources.Context)
	if err != nil {
		e.Notes = append(e.Notes, err.Error()) // an invalid annotation is the reason why a pod waits
		return e, nil
	}
	e.Notes = append(e.Notes, demand.Conflicts...)
	e.Containers = e.explainContainers(p, sources.Context, s)
	if p.Spec.NodeName != "" || p.HasEnded() {
		return e, nil
	}
	for _, condition := range facts.Status.Conditions {
		if condition.Type == "PodScheduled" {
			e.Message = condition.Message
		}
	}
	e.answer = s.Place(p, demand)
	e.Nodes = new(append([]survey.Candidate{}, e.answer.Candidates...))
	if e.answer.Best() == nil {
		e.Refusal = e.answer.Refusal()
	}
	e.Unread = append(append(e.Unread, survey.ReadIgnored(ctx, c, p)...), s.Unseen()...)
	return e, nil
}

// readExplained reads a pod with its facts.
func readExplained(ctx context.Context, a *access, c *cluster, name string) (*podcpu.Pod, *podFacts, error) {
	namespace, err := a.namespace()
	if err != nil {
		return nil, nil, err
	}
	if !isObjectName(name) {
		return nil, nil, badInput("pod %.60q: must be the name of a pod", name)
	}
	var text json.RawMessage
	if err := c.Get(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", namespace, name), &text); err != nil {
		return nil, nil, err
	}
	p, facts := &podcpu.Pod{}, &podFacts{}
	return p, facts, errors.Join(json.Unmarshal(text, p), json.Unmarshal(text, facts))
}

// explainContainers explains each container of a pod, in start order.
func (e *explanation) explainContainers(p *podcpu.Pod, sources podcpu.Context, s *survey.Survey) []containerWhy {
	all := []containerWhy{}
	node, err := s.Node(p.Spec.NodeName)
	if p.Spec.NodeName != "" && err != nil {
		e.Problem = err.Error()
	} else if err == nil {
		e.Problem = node.Problem
	}
	for _, list := range [][]podcpu.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := &list[i]
			w := containerWhy{Name: c.Name, Limit: c.Resources.Limits.MilliCPU()}
			w.Sources = profile.Sources("class", &profile.Pod{Annotations: p.Metadata.Annotations, Labels: p.Metadata.Labels},
				profile.Container{Name: c.Name, Image: c.Image}, sources.Profiles, sources.Namespace, profile.Values{"class": hybrid.Flexible.String()})
			w.Asked = w.Sources[0].Value
			if w.Asked == hybrid.Sensitive.String() {
				w.WhyFlexible = flexibleReasons[p.WhyFlexible(c.Name)]
			}
			if node != nil && node.CPUs != nil {
				w.addGrant(node, nodecpu.Holder{Pod: p.Metadata.UID, Container: c.Name}.ID())
			}
			all = append(all, w)
		}
	}
	return all
}

// flexibleReasons are the texts for the reasons of podcpu.Pod.WhyFlexible.
var flexibleReasons = map[string]string{
	podcpu.NoLimit:         "it has no CPU limit",
	podcpu.RequestNotLimit: "its CPU request differs from its limit",
}

// addGrant adds the CPUs that a node reports for a container.
func (w *containerWhy) addGrant(n *survey.Node, id string) {
	g, ok := n.CPUs.Grant(id)
	if !ok {
		w.Note = "the node's report has no CPUs for it: it has not started, has ended, or has the setting preserve"
		return
	}
	w.Class, w.CPUs = g.Class.String(), "shared "+g.CPUs.String()
	if g.Class == hybrid.Sensitive {
		w.CPUs = nodecpu.FormatCPUs(g.Exclusive, g.Fractions)
	}
	seen, isKnown := n.SeenCPUs[id]
	switch {
	case isKnown:
		w.Sees, w.Note = seen.String(), seen.Note
	case g.Class == hybrid.Sensitive:
		w.Sees = fmt.Sprint(g.CPUs.Count())
	default:
		w.Sees = fmt.Sprintf("%d/%d", g.CPUs.Count(), n.CPUs.Machine().Online.Count())
	}
	if g.Class != hybrid.Flexible {
		w.WhyFlexible = ""
	}
}

func (e *explanation) write(out io.Writer, width int) error {
	var text strings.Builder
	where := "waits"
	if e.Node != "" {
		where = "is on node " + cpumap.Clean(e.Node)
	}
	fmt.Fprintf(&text, "Pod %s/%s %s (%s, scheduler %s).\n", cpumap.Clean(e.Namespace), cpumap.Clean(e.Pod), where, cpumap.Clean(cmp.Or(e.Phase, "Pending")), cpumap.Clean(cmp.Or(e.Scheduler, "-")))
	if e.Problem != "" {
		fmt.Fprintf(&text, "The CPUs on the node are not known: %s.\n", cpumap.Clean(e.Problem))
	}
	if len(e.Containers) > 0 {
		text.WriteString("\n")
		_ = e.table().Write(&text, width) // a write to memory cannot fail
	}
	if e.answer != nil {
		text.WriteString("\n")
		_ = candidateTable(e.answer).Write(&text, width)
		text.WriteString("\n" + outcome(e.answer) + "\n")
		if e.Message != "" {
			fmt.Fprintf(&text, "Message of the scheduler: %s\n", cpumap.Clean(e.Message))
		}
	}
	notes := e.Notes
	for _, w := range e.Containers {
		if w.Note != "" {
			notes = append(notes, w.Name+": "+w.Note)
		}
	}
	writeLines(&text, "Notes", notes)
	writeLines(&text, "Not evaluated here, and can change the result", e.Unread)
	_, err := io.WriteString(out, text.String())
	return err
}

// table returns the table of the containers. It has only the columns in which a container has a value.
func (e *explanation) table() *texttable.Table {
	type column struct {
		title string
		text  func(*containerWhy) string
	}
	columns := []column{
		{"CONTAINER", func(w *containerWhy) string { return w.Name }},
		{"CLASS", func(w *containerWhy) string { return cmp.Or(w.Class, w.planned()) }},
		{"SOURCE", func(w *containerWhy) string { return fmt.Sprintf("%s: %s", w.Sources[0].Name, w.Asked) }},
		{"WHY FLEXIBLE", func(w *containerWhy) string { return w.WhyFlexible }},
		{"LIMIT", func(w *containerWhy) string { return limit(w.Limit) }},
		{"CPUS", func(w *containerWhy) string { return w.CPUs }},
		{"SEES", func(w *containerWhy) string { return w.Sees }},
	}
	t := &texttable.Table{Rows: make([][]string, len(e.Containers))}
	for _, c := range columns {
		isUsed := false
		for i := range e.Containers {
			isUsed = isUsed || c.text(&e.Containers[i]) != ""
		}
		if !isUsed {
			continue
		}
		t.Titles = append(t.Titles, c.title)
		for i := range e.Containers {
			t.Rows[i] = append(t.Rows[i], cpumap.Clean(cmp.Or(c.text(&e.Containers[i]), "-")))
		}
	}
	return t
}

// planned returns the class that the container would have on a node.
func (w *containerWhy) planned() string {
	if w.WhyFlexible != "" {
		return hybrid.Flexible.String()
	}
	return w.Asked
}
