package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/tracereport"
	"github.com/candor-project/candor/trace"
)

const traceSpecs = `TRACE is one of

  google2011:DIR        Google ClusterData 2011: machine_events and task_events
  openb:DIR             Alibaba GPU cluster of 2023; openb:DIR,pods=cpu300 selects
                        another pod list in DIR
  csv:FILE              CSV in the format of docs/reference/trace-formats.md
  kubectl:DIR           nodes.json and pods.json from kubectl get -o json
  synthetic             generated cluster: synthetic:machines=12500,days=29,seed=1
  semi-real:DIR         the first files of Google ClusterData 2011, a trace of 29 days;
                        candor generates the rest from the table of jobs,
                        DIR/jobs_2011_imputed.csv
  azure:FILE            Azure vmtable.csv of 2017; options describe the machines, which
                        the file does not contain:
                        azure:vmtable.csv.gz,machines=1000,cores=16,memory=112
  FILE.ctrace           compact file from candor trace import

By default, each container starts at the time at which it started in the recorded
cluster. With the option start=submitted (google2011:DIR,start=submitted; also openb and
kubectl), each container starts at its submission, even if it waited in the recorded
cluster or never started there.`

const traceInfoLong = `Summarize cluster traces side by side: the machines, the containers with their requests,
arrivals and durations, and the requested CPU divided by the capacity.

` + traceSpecs

const traceInfoExample = `  candor trace info google2011:/data/google2011
  candor trace info google2011:/data/google2011 synthetic:days=0.12
  candor trace info -o svg synthetic:days=1 > day.svg
  candor trace info -o json month.ctrace | jq .loadShare`

const traceImportLong = `Convert a trace to a compact file of a few bytes per event. candor replays such a file
without parsing text. The command writes the whole file or no file.

` + traceSpecs

const traceImportExample = `  candor trace import google2011:/data/google2011 -o google.ctrace
  candor trace import synthetic:machines=1000,days=7,seed=3 -o week.ctrace
  candor trace import --lenient csv:ours.csv.gz -o ours.ctrace`

func newTraceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Read, convert and generate cluster traces",
	}
	cmd.AddCommand(newTraceInfoCommand(), newTraceImportCommand())
	return cmd
}

// lenientFlag adds --lenient.
func lenientFlag(cmd *cobra.Command, o *trace.Options) {
	cmd.Flags().BoolVar(&o.Lenient, "lenient", false, "skip invalid lines and report them")
}

// openTrace opens a trace. A failure is bad input.
func openTrace(spec string, o trace.Options) (trace.Reader, error) {
	r, err := trace.Open(spec, o)
	if err != nil {
		return nil, badInput("%w", err)
	}
	return r, nil
}

// traceError distinguishes bad input from other failures.
func traceError(err error) error {
	if syntax := (*trace.SyntaxError)(nil); errors.As(err, &syntax) {
		return badInput("%w", err)
	}
	return err
}

func newTraceInfoCommand() *cobra.Command {
	var o trace.Options
	cmd := &cobra.Command{
		Use:               "info TRACE...",
		Short:             "Summarize cluster traces",
		Long:              traceInfoLong,
		Example:           traceInfoExample,
		ValidArgsFunction: completeTraces,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return missing("TRACE", "a trace of a kind that "+cmd.CommandPath()+" --help lists")
			}
			return nil
		},
	}
	output := outputFlag(cmd, "table", "wide", "json", "svg")
	cores := cmd.Flags().Float64("cores-of-largest", 16, "CPUs of the largest machine, for traces that give CPU as a fraction of it")
	lenientFlag(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !(*cores > 0 && *cores <= 1e5) {
			return badInput("--cores-of-largest %v: must be a number above 0, at most 100000", *cores)
		}
		if output.value == "svg" && len(args) > tracereport.MaxTraces {
			return badInput("-o svg shows %d traces at most, got %d", tracereport.MaxTraces, len(args))
		}
		summaries, err := summarize(cmd.ErrOrStderr(), args, o, *cores)
		if err != nil {
			return err
		}
		return writeSummaries(cmd.OutOrStdout(), summaries, output)
	}
	return cmd
}

// summarize reads traces and shows its progress on a terminal.
func summarize(terminal io.Writer, specs []string, o trace.Options, cores float64) ([]*trace.Summary, error) {
	var list []*trace.Summary
	for i, spec := range specs {
		r, err := openTrace(spec, o)
		if err != nil {
			return nil, err
		}
		parts := ""
		if len(specs) > 1 {
			parts = fmt.Sprintf("%d of %d traces", i, len(specs))
		}
		counted, end := countEvents(terminal, r, parts)
		s, err := trace.Summarize(counted, cores)
		end()
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, traceError(err)
		}
		list = append(list, s)
	}
	return list, nil
}

// writeSummaries writes summaries in an output format.
func writeSummaries(out io.Writer, summaries []*trace.Summary, output *choice) error {
	switch output.value {
	case "svg":
		return tracereport.SVG(out, summaries)
	case "json":
		for _, s := range summaries {
			if err := writeJSONLine(out, s); err != nil {
				return err
			}
		}
		return nil
	}
	return tracereport.Text(out, summaries, tableWidth(out, output), !localeIsUTF8())
}

func newTraceImportCommand() *cobra.Command {
	var o trace.Options
	cmd := &cobra.Command{
		Use:               "import TRACE -o FILE.ctrace",
		Short:             "Convert a trace to a compact file",
		Long:              traceImportLong,
		Example:           traceImportExample,
		ValidArgsFunction: completeTraces,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badInput("%d arguments: must be 1, a TRACE of a kind that %s --help lists", len(args), cmd.CommandPath())
			}
			return nil
		},
	}
	file := cmd.Flags().StringP("output", "o", "", "file to write, with a name that ends in .ctrace")
	lenientFlag(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *file == "" {
			return missing("--output", "a file whose name ends in .ctrace")
		}
		if !strings.HasSuffix(*file, ".ctrace") {
			return badInput("--output %q: must be a file whose name ends in .ctrace", *file)
		}
		if _, err := os.Stat(filepath.Dir(*file)); err != nil {
			return badInput("--output: %w", err)
		}
		r, err := openTrace(args[0], o)
		if err != nil {
			return err
		}
		ctx, stop := untilSignal(cmd)
		defer stop()
		counted, end := countEvents(cmd.ErrOrStderr(), r, "")
		header, err := trace.Import(ctx, *file, counted)
		end()
		report := r.Report()
		err = errors.Join(err, r.Close())
		if err != nil && ctx.Err() != nil {
			return stoppedError(ctx, "%s is not written", *file)
		}
		if err != nil {
			return traceError(err)
		}
		return sayImported(cmd.OutOrStdout(), *file, header, report)
	}
	return cmd
}

// sayImported reports the written events and the omitted records.
func sayImported(out io.Writer, file string, h trace.Header, r trace.Report) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d events, %d containers, %d machines, %v hours; %d bytes, %.1f an event\n", file,
		h.Events, h.Containers, h.Machines, float64(int(h.Span.Seconds()/36+0.5))/100, info.Size(), float64(info.Size())/float64(max(h.Events, 1)))
	for _, c := range append(r.Skipped, r.NotModelled...) {
		if err == nil {
			_, err = fmt.Fprintf(out, "left out: %d %s, the first at %s\n", c.N, c.Reason, c.First)
		}
	}
	return err
}

// completeTraces completes the kinds of traces; the shell completes paths.
func completeTraces(_ *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(part, ":") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	kinds := []string{"google2011:", "openb:", "csv:", "kubectl:", "semi-real:", "azure:", "synthetic"}
	return kinds, cobra.ShellCompDirectiveNoSpace
}

// A countedReader publishes its progress for other goroutines.
type countedReader struct {
	trace.Reader
	n            int64
	events, time atomic.Int64 // number of events, and time in the trace, at the last update
}

// countEvents shows the progress of reading a trace until end is called.
func countEvents(terminal io.Writer, r trace.Reader, parts string) (counted trace.Reader, end func()) {
	c, h := &countedReader{Reader: r}, r.Header()
	return c, showProgress(terminal, func() stage { return c.stage(h, parts) })
}

// stride is the number of events between two updates.
const stride = 1024

// Next implements trace.Reader.
func (c *countedReader) Next(e *trace.Event) error {
	err := c.Reader.Next(e)
	if c.n++; c.n%stride == 0 {
		c.events.Store(c.n)
		c.time.Store(int64(e.Time))
	}
	return err
}

// stage returns the progress: by events if the header counts them, otherwise by the time in the trace if the length of the trace
// is known.
func (c *countedReader) stage(h trace.Header, parts string) stage {
	s := stage{parts: parts, events: c.events.Load()}
	switch {
	case h.Events > 0:
		s.share = float64(s.events) / float64(h.Events)
	case h.Span > 0:
		s.share = float64(c.time.Load()) / float64(h.Span)
	}
	return s
}
