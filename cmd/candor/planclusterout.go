package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/survey"
)

// writeAnswer writes where a pod would go, as a table.
func writeAnswer(out io.Writer, p *podcpu.Pod, asked *podcpu.Demand, a *survey.Result) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Pod %s/%s: %s\n\n", cpumap.Clean(p.Metadata.Namespace), cpumap.Clean(p.Metadata.Name), askedWords(asked))
	w := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tPLACE\tADDS SHARED TIME\tMOVES\tWHAT IT WOULD HAVE")
	for i := range a.Candidates {
		at := &a.Candidates[i]
		if at.Reason != "" {
			fmt.Fprintf(w, "%s\t-\t-\t-\t%s\n", cpumap.Clean(at.Node), cpumap.Clean(at.Reason))
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%v\t%d\t%s\n", cpumap.Clean(at.Node), at.Place, at.Shared, at.Moves, givenWords(at))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(&text)
	text.WriteString(outcome(a) + "\n")
	writeLines(&text, "Notes", a.Notes)
	writeLines(&text, "Not looked at, and it may decide otherwise", a.Unread)
	_, err := io.WriteString(out, text.String())
	return err
}

// writeLines writes a list with its heading and length, unless it is empty.
func writeLines(out io.Writer, heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s (%d):\n", heading, len(lines))
	for _, line := range lines {
		fmt.Fprintln(out, "-", cpumap.Clean(line))
	}
}

// outcome describes the node for the pod.
func outcome(a *survey.Result) string {
	best := a.Best()
	if best == nil {
		return "It waits: " + cpumap.Clean(a.Refusal())
	}
	alike := 0
	for i := range a.Candidates {
		if a.Candidates[i].Place == 1 {
			alike++
		}
	}
	if alike > 1 {
		return fmt.Sprintf("It goes to one of the %d nodes of place 1.", alike)
	}
	return fmt.Sprintf("It goes to node %s.", cpumap.Clean(best.Node))
}

// askedWords describes the demand of the pod.
func askedWords(asked *podcpu.Demand) string {
	var words []string
	for _, r := range asked.Lasting() {
		_, name, _ := strings.Cut(r.ID, "/")
		what := fmt.Sprintf("%s %s, limit %s", cpumap.Clean(name), r.Class, limit(r.Limit))
		if r.Class == hybrid.Flexible {
			what += ", guaranteed " + amount(r.Guaranteed())
		}
		words = append(words, what)
	}
	if words == nil {
		return "Candor plans none of its containers"
	}
	return strings.Join(words, "; ")
}

// givenWords describes the CPUs of the containers on a node.
func givenWords(at *survey.Candidate) string {
	if len(at.Containers) == 0 {
		return "no Candor there: what the kubelet gives"
	}
	var words []string
	for _, c := range at.Containers {
		what := "CPUs " + c.CPUs
		if c.Class == hybrid.Flexible {
			what = "shared " + c.CPUs
		}
		if len(at.Containers) > 1 {
			what = cpumap.Clean(c.Name) + ": " + what
		}
		words = append(words, what)
	}
	return strings.Join(words, "; ")
}

// writeAnswerJSON writes the candidate nodes of a pod as a JSON line.
func writeAnswerJSON(out io.Writer, p *podcpu.Pod, a *survey.Result) error {
	var node *string
	refusal := ""
	if best := a.Best(); best != nil {
		node = &best.Node
	} else {
		refusal = a.Refusal()
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Namespace string             `json:"namespace"`
		Pod       string             `json:"pod"`
		Node      *string            `json:"node"` // null: it waits
		Refusal   string             `json:"refusal,omitempty"`
		Nodes     []survey.Candidate `json:"nodes"`
		Notes     []string           `json:"notes"`
		Unseen    []string           `json:"notLookedAt"`
	}{p.Metadata.Namespace, p.Metadata.Name, node, refusal, append([]survey.Candidate{}, a.Candidates...), append([]string{}, a.Notes...), append([]string{}, a.Unread...)})
}
