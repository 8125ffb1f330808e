package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/experiment/probe"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/texttable"
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
	ctx, stop := untilSignal(cmd)
	defer stop()
	p, err := f.watch(ctx, cmd, &w)
	if err != nil {
		return withoutResult(ctx, err)
	}
	return f.concludeProbe(cmd.OutOrStdout(), p)
}

// concludeProbe shows the prediction of a probe without a measurement. It returns an error if the prediction is undecided, unless
// --accept-undecided counts the program as flexible.
func (f *classifyFlags) concludeProbe(out io.Writer, p *experiment.Prediction) (err error) {
	if f.output.value == "json" {
		err = writeJSON(out, probeReport{p})
	} else {
		var text strings.Builder
		writePrediction(&text, tableWidth(out, &f.output), p, "")
		_, err = io.WriteString(out, text.String())
	}
	if err == nil && p.Class == experiment.Undecided && !f.accept {
		return undecided("the prediction is undecided; use a longer --probe-for, measure with --cpu, or add --accept-undecided")
	}
	return err
}

func (f *classifyFlags) watch(ctx context.Context, cmd *cobra.Command, w *experiment.Workload) (p *experiment.Prediction, err error) {
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
	if p.Class == experiment.Undecided {
		fmt.Fprintf(text, "the probe does not know: %s\n", p.Why)
	} else {
		fmt.Fprintf(text, "the probe predicts: %s: %s\n", p.Class, p.Why)
		if measured != "" && measured != p.Class {
			fmt.Fprintf(text, "that is not what was measured: the class is %s\n", measured)
		}
	}
	text.WriteString("\n")
	t := texttable.Table{Titles: []string{"SEES", "THREADS", "ASKS"}, LastWidth: 20}
	for i := range p.Starts {
		s := &p.Starts[i]
		t.Rows = append(t.Rows, []string{count(s.CPUs, "CPU", "CPUs"), strconv.Itoa(s.Threads), cmp.Or(s.SourceNames(), "-")})
	}
	_ = t.Write(text, width) // a write to memory cannot fail
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
