package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/texttable"
	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/experiment/probe"
	"github.com/candor-project/candor/internal/errline"
)

// A probeReport is the JSON form of a probe without a measurement.
type probeReport struct {
	Probe *experiment.Prediction `json:"probe"`
}

// onlyProbe traces the start of the program and measures nothing.
func (f *classifyFlags) onlyProbe(cmd *cobra.Command, args []string) error {
	if f.annotate != "" || f.profile.file != "" || len(f.workloads) > 0 || f.metric != "" {
		return badInput("--annotate, --profile, --workload and --metric are for measurements: add --cpu")
	}
	w, err := f.workload(args)
	if err != nil {
		return err
	}
	p, err := f.watch(cmd, &w)
	if err != nil {
		return experimentError(err)
	}
	if f.output.value == "json" {
		return writeJSON(cmd.OutOrStdout(), probeReport{p})
	}
	var text strings.Builder
	writePrediction(&text, tableWidth(cmd.OutOrStdout(), &f.output), p, "")
	_, err = io.WriteString(cmd.OutOrStdout(), text.String())
	return err
}

func (f *classifyFlags) watch(cmd *cobra.Command, w *experiment.Workload) (p *experiment.Prediction, err error) {
	ctx, stop := untilSignal(cmd)
	defer stop()
	l, err := openLab()
	if err != nil {
		return nil, err
	}
	defer func() { err = errline.Join(err, l.Close()) }()
	end := showProgress(cmd.ErrOrStderr(), func() stage { return stage{text: "the program starts"} })
	defer end()
	return l.Probe(ctx, w, f.probeTime)
}

// writePrediction writes the result of a probe and compares it with the measured class. measured is "" without
// a measurement. width is the width of the terminal; 0: unlimited.
func writePrediction(text *strings.Builder, width int, p *experiment.Prediction, measured experiment.Verdict) {
	if p == nil {
		return
	}
	if measured != "" {
		text.WriteString("\n")
	}
	t := texttable.Table{Titles: []string{"SEES", "THREADS", "ASKS"}, LastWidth: 20}
	for i := range p.Starts {
		s := &p.Starts[i]
		t.Rows = append(t.Rows, []string{count(s.CPUs, "CPU", "CPUs"), strconv.Itoa(s.Threads), cmp.Or(s.SourceNames(), "-")})
	}
	_ = t.Write(text, width) // a write to memory cannot fail
	if p.Class == experiment.Undecided {
		fmt.Fprintf(text, "\nthe probe does not know: %s\n", p.Why)
		return
	}
	fmt.Fprintf(text, "\nthe probe predicts: %s: %s\n", p.Class, p.Why)
	if measured != "" && measured != p.Class {
		fmt.Fprintf(text, "that is not what was measured: the class is %s\n", measured)
	}
}

// newInternalProbeCommand returns the hidden command that executes the program to trace (probe.Become).
func newInternalProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use:                probe.Command,
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(2),
		RunE:               func(_ *cobra.Command, args []string) error { return probe.Become(args[0], args[1:]) },
	}
}
