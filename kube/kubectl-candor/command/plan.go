package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/survey"
)

const planLong = `Predict the node and the CPUs that a pod would get. The command plans the pod on every
node separately, with the reports that the nodes publish (kubectl get nodecpu) and the
code of candor-scheduler. It changes nothing in the cluster.

The pod is a pending pod of the cluster (POD), the pod of a manifest (-f), or a pod with a
single container (--cpu).`

const planExample = `  kubectl candor plan web-0 -n shop
  kubectl candor plan -f deployment.yaml
  kubectl candor plan --cpu 1.5
  kubectl candor plan --cpu 1.5 -o json | jq -r .node`

func newPlanCommand(a *access) *cobra.Command {
	var f podFlags
	cmd := &cobra.Command{Use: "plan [POD]", Short: "Predict the node and the CPUs of a pod", Long: planLong, Example: planExample}
	f.add(cmd)
	output := outputFlag(cmd, "table", "wide", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pod, err := f.describe(cmd, args)
		if err != nil {
			return err
		}
		c, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		if pod, err = f.placed(cmd.Context(), a, c, pod); err != nil {
			return err
		}
		if pod.Spec.NodeName != "" && f.pod != "" {
			return badInput("pod %s: is on node %s: must be a pending pod; kubectl candor why shows its CPUs", f.pod, pod.Spec.NodeName)
		}
		demand, answer, err := place(cmd.Context(), c, pod)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeAnswerJSON(cmd.OutOrStdout(), pod, answer)
		}
		return writeAnswer(cmd.OutOrStdout(), tableWidth(output), pod, demand, answer)
	}
	return cmd
}

// place dry-runs a pod on all nodes.
func place(ctx context.Context, c *cluster, pod *podcpu.Pod) (*podcpu.Demand, *survey.Result, error) {
	demand, err := survey.ReadDemand(ctx, c, pod)
	if err != nil {
		return nil, nil, err
	}
	s, err := survey.Read(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	answer := s.Place(pod, demand.Demand)
	answer.Notes = demand.Notes
	answer.Unread = slices.Concat(demand.Unread, s.Unseen())
	return demand.Demand, answer, nil
}

// writeAnswer writes the candidate nodes of a pod as a table. width is the width of the terminal; 0: unlimited.
func writeAnswer(out io.Writer, width int, p *podcpu.Pod, demand *podcpu.Demand, a *survey.Result) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Pod %s/%s: %s\n\n", cpumap.Clean(p.Metadata.Namespace), cpumap.Clean(p.Metadata.Name), demandWords(demand))
	_ = candidateTable(a).Write(&text, width) // a write to memory cannot fail
	fmt.Fprintln(&text)
	text.WriteString(outcome(a) + "\n")
	writeLines(&text, "Notes", a.Notes)
	writeLines(&text, "Not evaluated here, and can change the result", a.Unread)
	_, err := io.WriteString(out, text.String())
	return err
}

func candidateTable(a *survey.Result) *texttable.Table {
	t := &texttable.Table{Titles: []string{"NODE", "PLACE", "ADDS SHARED TIME", "MOVES", "WHAT IT WOULD HAVE"}, Ranks: []int{0, 0, 1, 2, 0}, LastWidth: 20}
	for i := range a.Candidates {
		at := &a.Candidates[i]
		row := []string{cpumap.Clean(at.Node), "-", "-", "-", cpumap.Clean(at.Reason)}
		if at.Reason == "" {
			row = []string{cpumap.Clean(at.Node), fmt.Sprint(at.Place), fmt.Sprint(at.Shared), fmt.Sprint(at.Moves), givenWords(at)}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// outcome describes the node that the pod gets, or why it waits.
func outcome(a *survey.Result) string {
	best := a.Best()
	if best == nil {
		return "It waits: " + cpumap.Clean(a.Refusal())
	}
	ties := 0
	for i := range a.Candidates {
		if a.Candidates[i].Place == 1 {
			ties++
		}
	}
	if ties > 1 {
		return fmt.Sprintf("It goes to one of the %d nodes of place 1.", ties)
	}
	return fmt.Sprintf("It goes to node %s.", cpumap.Clean(best.Node))
}

// demandWords describes the demand of the pod.
func demandWords(demand *podcpu.Demand) string {
	var words []string
	for _, r := range demand.Lasting() {
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

// A podPlan is the JSON form of a pod's plan.
type podPlan struct {
	Namespace string             `json:"namespace"`
	Pod       string             `json:"pod"`
	Node      *string            `json:"node"` // null: the pod waits
	Refusal   string             `json:"refusal,omitempty"`
	Nodes     []survey.Candidate `json:"nodes"`
	Notes     []string           `json:"notes"`
	Unseen    []string           `json:"notLookedAt"`
}

// writeAnswerJSON writes the candidate nodes of a pod as JSON.
func writeAnswerJSON(out io.Writer, p *podcpu.Pod, a *survey.Result) error {
	plan := podPlan{
		Namespace: p.Metadata.Namespace, Pod: p.Metadata.Name, Nodes: append([]survey.Candidate{}, a.Candidates...),
		Notes: append([]string{}, a.Notes...), Unseen: append([]string{}, a.Unread...),
	}
	if best := a.Best(); best != nil {
		plan.Node = &best.Node
	} else {
		plan.Refusal = a.Refusal()
	}
	return jsonout.Write(out, plan)
}
