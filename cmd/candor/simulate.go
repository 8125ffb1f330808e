package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cmd/candor/internal/simreport"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/simulate"
)

const simulateLong = `Simulate the allocation on a whole cluster: replay a trace with a share of sensitive
containers and show the shared time, the refusals, the load and the decision times.

S is the shared time: the share of the sensitive containers' CPU time on CPUs in more
than one container's cpuset. R is the reject rate: the share of the sensitive
containers refused only because their view could not be kept, among those with room.

A point is one replay: each algorithm with each policy, scheduler and share of
sensitive containers. Points run in parallel on all cores.

` + traceSpecs

const simulateExample = `  candor simulate --trace google2011:/data/google2011
  candor simulate --trace synthetic:machines=1000,days=1 --sensitive 0:1:0.1 --out figures
  candor simulate --trace csv:ours.csv --sensitive by-class --algorithm candor
  candor simulate --trace csv:ours.csv --size 's<5%,r=0' --gain measured.csv
  candor simulate --trace month.ctrace --policy strict,best-effort --scheduler own,least -o json`

func newSimulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:     "simulate --trace TRACE",
		Short:   "Simulate the allocation on a whole cluster by a trace",
		Long:    simulateLong,
		Example: simulateExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return badInput("%s takes no arguments, got %q: the trace goes with --trace", cmd.CommandPath(), args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

// run replays the points, and shows those that were done, even where the user
// ended it before the last.
func (f *simulateFlags) run(cmd *cobra.Command) error {
	setting, header, err := f.setting()
	if err != nil {
		return err
	}
	report := &simreport.Report{Setting: setting.Describe(header, f.sensitive.text)}
	if err := f.prepare(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
	defer stop()
	points := f.points()
	setting.Progress = &simulate.Progress{}
	end := showProgress(cmd.ErrOrStderr(), func() stage { return pointsStage(setting.Progress, header.Events, len(points)) })
	report.Points, err = f.replay(ctx, setting, points)
	end()
	report.Setting.Report = setting.Progress.Left()
	stopped := errors.Is(err, context.Canceled)
	if err != nil && !stopped {
		return simulateError(err)
	}
	if f.target != nil {
		report.Target = f.target.String()
	}
	if f.gain != nil {
		report.Gain = f.gain.Estimate(report.Points)
	}
	if err := f.write(cmd.OutOrStdout(), report); err != nil {
		return err
	}
	if stopped {
		return fmt.Errorf("stopped: %d of %s begun, the rest left out", len(report.Points), count(len(points), "point", "points"))
	}
	return nil
}

// pointsStage returns the progress of a sweep. eventsEach is the trace's number of events; 0 derives it from the finished
// points.
func pointsStage(p *simulate.Progress, eventsEach int64, points int) stage {
	finished, finishedEvents := p.Finished()
	if eventsEach == 0 && finished > 0 {
		eventsEach = finishedEvents / finished
	}
	s := stage{parts: fmt.Sprintf("%d of %s", finished, count(points, "point", "points")), events: p.Events()}
	if eventsEach > 0 {
		s.share = float64(s.events) / (float64(eventsEach) * float64(points))
	}
	return s
}

// replay runs the points, or searches the machines that they need.
func (f *simulateFlags) replay(ctx context.Context, s simulate.Setting, points []simulate.Point) ([]simulate.Result, error) {
	if f.target != nil {
		return simulate.FewestMachines(ctx, s, points, *f.target)
	}
	return simulate.Sweep(ctx, s, points)
}

// simulateError distinguishes bad input from other failures.
func simulateError(err error) error {
	if errors.Is(err, simulate.ErrTooFew) {
		return err
	}
	return traceError(err)
}

// write writes the results to the terminal and the folder.
func (f *simulateFlags) write(out io.Writer, r *simreport.Report) error {
	if f.out != "" {
		if err := fileio.WriteFolder(f.out, r.Files()); err != nil {
			return err
		}
	}
	if f.output.value == "json" {
		return r.JSON(out)
	}
	return r.Text(out)
}
