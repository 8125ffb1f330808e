package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/survey"
)

const fitsLong = `Show how many replicas of a pod fit. The command places the replicas one after the other,
each on its best node, with the code of candor-scheduler. It changes nothing in the
cluster.

The exit code is 1 if not all replicas fit.`

const fitsExample = `  kubectl candor fits -f deployment.yaml --replicas 20
  kubectl candor fits -f pod.yaml --replicas 1000 -o json | jq .fits`

// maxReplicas bounds --replicas.
const maxReplicas = 100_000

func newFitsCommand(a *access) *cobra.Command {
	cmd := &cobra.Command{Use: "fits -f FILE", Short: "Show how many replicas of a pod fit", Long: fitsLong, Example: fitsExample, Args: noArgs}
	output := outputFlag(cmd, "table", "wide", "json")
	file := cmd.Flags().StringP("filename", "f", "", "manifest of the pod or its workload; - reads standard input")
	replicas := cmd.Flags().Int("replicas", 1, "number of replicas")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case *file == "":
			return badInput("missing -f; must be the manifest of the pod or its workload")
		case *replicas < 1 || *replicas > maxReplicas:
			return badInput("--replicas %d: must be 1 to %d", *replicas, maxReplicas)
		}
		pod, err := readPod(cmd.InOrStdin(), *file)
		if err == nil {
			err = setNamespace(a, pod)
		}
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		c, err := a.connect(ctx)
		if err != nil {
			return err
		}
		sources, err := survey.ReadSources(ctx, c, pod.Metadata.Namespace)
		if err != nil {
			return err
		}
		s, err := survey.Read(ctx, c)
		if err != nil {
			return err
		}
		r, err := s.Replicas(pod, sources.Context, *replicas)
		if err != nil {
			return badInput("-f %s: %w", *file, err)
		}
		unread := append(survey.ReadIgnored(ctx, c, pod), s.Unseen()...)
		f := newFit(pod, r, *replicas, sources.Notes, unread)
		if output.value == "json" {
			err = jsonout.Write(cmd.OutOrStdout(), f)
		} else {
			err = f.write(cmd.OutOrStdout(), tableWidth(output))
		}
		if err == nil && f.Fits < f.Replicas {
			err = fmt.Errorf("%d of %d replicas fit", f.Fits, f.Replicas)
		}
		return err
	}
	return cmd
}

// A fit is the output of fits.
type fit struct {
	Namespace string          `json:"namespace"`
	Pod       string          `json:"pod"`
	Replicas  int             `json:"replicas"`
	Fits      int             `json:"fits"`
	Nodes     []survey.Placed `json:"nodes"`
	Refusal   string          `json:"refusal,omitempty"` // of the first replica that does not fit
	Notes     []string        `json:"notes"`
	Unread    []string        `json:"notLookedAt"`
}

func newFit(p *podcpu.Pod, r *survey.Replicas, replicas int, notes, unread []string) *fit {
	f := &fit{
		Namespace: p.Metadata.Namespace, Pod: p.Metadata.Name, Replicas: replicas, Fits: r.Total(),
		Nodes: append([]survey.Placed{}, r.Placed...), Notes: append([]string{}, notes...), Unread: append([]string{}, unread...),
	}
	if r.Refused != nil {
		f.Refusal = r.Refused.Refusal()
	}
	return f
}

func (f *fit) write(out io.Writer, width int) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Pod %s/%s: %d of %s fit.\n", cpumap.Clean(f.Namespace), cpumap.Clean(f.Pod), f.Fits, count(f.Replicas, "replica"))
	if len(f.Nodes) > 0 {
		t := &texttable.Table{Titles: []string{"NODE", "REPLICAS"}}
		for _, n := range f.Nodes {
			t.Rows = append(t.Rows, []string{cpumap.Clean(n.Node), strconv.Itoa(n.Replicas)})
		}
		text.WriteString("\n")
		_ = t.Write(&text, width) // a write to memory cannot fail
	}
	if f.Refusal != "" {
		fmt.Fprintf(&text, "\nThe next replica waits: %s\n", cpumap.Clean(f.Refusal))
	}
	writeLines(&text, "Notes", f.Notes)
	writeLines(&text, "Not evaluated here, and can change the result", f.Unread)
	_, err := io.WriteString(out, text.String())
	return err
}
