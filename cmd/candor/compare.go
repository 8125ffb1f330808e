package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/expreport"
	"github.com/candor-project/candor/engine/client"
	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/experiment/probe"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
)

const compareLong = `Run a program under several setups of the same CPU limit and compare the results. The
setups are:

  none             no limit
  quota            a quota equal to the limit; the program sees all CPUs, as with
                   docker run --cpus
  quota+threads=N  as quota, with N threads (default: the limit rounded up): N replaces
                   {threads} in the arguments; without {threads}, OMP_NUM_THREADS is N
  cpuset           exclusive CPUs, whose number is the limit rounded up, and the quota
  shared-fraction  two instances at the same time: each has exclusive CPUs for the
                   integer part of the limit, and both run on the same additional CPU
                   for the fraction of the limit (0.5 of 1.5)
  candor           as candor run: exclusive CPUs, a fraction of one more CPU, and only
                   these CPUs visible; candor+topology=single-l3 adds a topology policy
  2xquota          two instances of the setup quota at the same time, each with the
                   limit; every setup accepts such a factor

In each round, every setup runs once, in random order. The result of a run is its wall
time, or the metric that --metric extracts from its output. The first setup is the
baseline.

With --server, the setups apply to a server. Once the server listens, the program of
--client runs without a limit, and its output has the results.

With --image, a container engine (docker, podman, nerdctl) runs the program, with Candor's
OCI runtime candor-runc, under the same setups. The wall time is then the lifetime of the
container.`

const compareExample = `  candor compare --cpu 1.5 -- ./solver input
  candor compare --cpu 1 --setups quota,quota+threads,cpuset,candor -n 30 --out figures -- xz -T0 -k -c big
  candor compare --cpu 1 --metric 'events per second: *([0-9.]+)' --better higher -- sysbench cpu --threads={threads} run
  candor compare --cpu 500m --setups 2xquota,shared-fraction,2xcpuset -- ./solver input
  candor compare --cpu 1 --server "nginx -g 'daemon off;'" --client 'wrk -d 5 http://127.0.0.1/' \
    --metric 'qps=Requests/sec: *([0-9.]+)' --metric 'latency=Latency *([0-9.]+)ms' --better qps=higher
  candor compare --cpu 1.5 --image solver:2 --engine-flags '-v /data:/data' -- /data/input
  candor compare --cpu 1.5 -o json -- ./bench >runs.json && candor report runs.json`

// compareFlags are the flags of candor compare.
type compareFlags struct {
	experimentFlags
	cpu    hybrid.Milli
	setups string
}

func newCompareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:     "compare --cpu N [flags] -- COMMAND [ARG]... | --image IMAGE [flags] -- [ARG]...",
		Short:   "Compare a program under quota, cpuset and Candor",
		Long:    compareLong,
		Example: compareExample,
		RunE:    f.run,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // words after the command's name belong to the command
	flags.Var((*milliFlag)(&f.cpu), "cpu", "limit, such as 2, 1.5 or 1500m")
	flags.StringVar(&f.setups, "setups", "quota,candor", "setups, separated by commas")
	var names []string
	for _, k := range experiment.Kinds {
		names = append(names, string(k))
	}
	complete(cmd, "setups", names)
	f.add(cmd)
	return cmd
}

// run runs the experiment and shows its runs. If the user interrupts the experiment, run shows the completed
// runs.
func (f *compareFlags) run(cmd *cobra.Command, args []string) error {
	e, err := f.experiment(args)
	if err != nil {
		return err
	}
	if err := f.prepare(); err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	report, err := f.measure(ctx, cmd, &e)
	if report == nil {
		return withoutResult(ctx, err)
	}
	return f.finish(ctx, cmd.OutOrStdout(), expreport.Report{Report: report}, len(report.Runs), err)
}

func (f *compareFlags) experiment(args []string) (experiment.Experiment, error) {
	w, err := f.workload(args)
	e := experiment.Experiment{Workload: w, Rounds: f.rounds, WarmUps: f.warmUps, Seed: f.seed}
	if err != nil {
		return e, err
	}
	if len(w.Command) == 0 && w.Image == nil {
		return e, missing("COMMAND", "-- COMMAND [ARG]..., or --image IMAGE")
	}
	for text := range strings.SplitSeq(f.setups, ",") {
		s, err := experiment.ParseSetup(text, f.cpu)
		switch {
		case err != nil:
			return e, badInput("--setups: %w", err)
		case s.Kind != experiment.None && f.cpu == 0:
			return e, missing("--cpu", fmt.Sprintf("%v to %v for %s", hybrid.MinLimit, hybrid.MaxLimit, text))
		case s.Kind != experiment.None && (f.cpu < hybrid.MinLimit || f.cpu > hybrid.MaxLimit):
			return e, badInput("--cpu %v: must be %v to %v for %s", f.cpu, hybrid.MinLimit, hybrid.MaxLimit, text)
		}
		e.Setups = append(e.Setups, s)
	}
	return e, experimentError(e.Check())
}

// measure runs the experiment in a lab and shows its progress. It saves the partial report after each round.
func (f *compareFlags) measure(ctx context.Context, cmd *cobra.Command, e *experiment.Experiment) (report *experiment.Report, err error) {
	l, err := openLab()
	if err != nil {
		return nil, err
	}
	defer func() { err = errline.Join(err, l.Close()) }()
	var now latest[stage]
	e.Progress = func(s experiment.Stage) {
		now.set(runStage(s))
		if s.Run > 1 && s.Run%len(e.Setups) == 1%len(e.Setups) {
			soFar := *s.Report
			soFar.Stopped, soFar.Partial = true, true
			f.keep(&soFar)
		}
	}
	end := showProgress(cmd.ErrOrStderr(), now.get)
	defer end()
	return e.Run(ctx, l)
}

// openLab opens an experiment.Lab, a host that runs workloads beside the containers of this machine. The lab uses neither
// reserved CPUs nor the exclusive CPUs of these containers.
func openLab() (*experiment.Lab, error) {
	machine, driver := defaultHostOptions()
	machine.Cgroup.Driver = cgroup.Driver(driver)
	l, err := experiment.OpenLab(machine)
	if err != nil {
		return nil, &exitError{exitBadInput, err} // for example a state directory that cannot be used
	}
	return l, nil
}

// runStage returns the progress of an experiment with its preliminary result.
func runStage(s experiment.Stage) stage {
	var text strings.Builder
	fmt.Fprintf(&text, "run %d of %d, %v", s.Run, s.Runs, s.Setup)
	metric := s.Report.Metrics[len(s.Report.Metrics)-1].Name
	for _, c := range s.Report.Compare(metric)[1:] {
		if c.Against != nil {
			fmt.Fprintf(&text, ", %v %.3f", c.Setup, c.Against.Ratio)
		}
	}
	return stage{text: text.String(), share: float64(s.Run-1) / float64(s.Runs)}
}

// experimentError returns err with the exit code for bad input if the caller caused the error.
func experimentError(err error) error {
	if isOneOf(err, client.ErrBadEngine, client.ErrBadImage, client.ErrRefused, experiment.ErrBadFolder, experiment.ErrBadMetric, experiment.ErrBadReport, experiment.ErrBadSetup, experiment.ErrBadStressor,
		experiment.ErrBadWorkload, experiment.ErrNoVote, experiment.ErrOtherBase, experiment.ErrTooSmall, probe.ErrUnsupported) {
		return &exitError{exitBadInput, err}
	}
	return hostError(err)
}
