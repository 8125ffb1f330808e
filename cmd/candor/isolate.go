package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/expreport"
	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/experiment/apps"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
)

const isolateLong = `Measure how well an application is isolated from the programs beside it.

The command runs each application alone and beside each stressor, in these cases:

  together      no limits, all processes in the same cgroup
  groups        no limits, a cgroup for the application and a cgroup for the stressor
  quota         a CPU quota for the application and a CPU quota for the stressor
  pinned        separate CPUs for the application and the stressor
  candor        CPUs of its own for the application (class sensitive), the other CPUs
                for the stressor (class flexible)
  candor+burst  the same CPUs for both (class flexible); the application may spend its
                unused quota later (--burst auto)

A slowdown is the run time beside a stressor divided by the run time without a stressor in
the same case. In both runs, the application may use the same CPUs, so the slowdown does
not contain the cost of having fewer CPUs than in another case. The report shows this cost
separately, compared with the first case. The stressors use stress-ng and iperf3:

  cpu, cache    25 workers that compute or thrash the cache
  ram           8 workers that allocate up to 2 GiB and free it
  io            8 workers that write files of 64 MiB and remove them
  network       iperf3 between two network namespaces

The built-in applications are small programs. perception, planning, prediction and
decision imitate the stages of the software of a self-driving vehicle. The applications
disk and network mostly wait for the disk and the network.`

const isolateExample = `  candor isolate
  candor isolate -n 10 --out figures
  candor isolate -n 2 --stressors cpu,cache --app sort='sort -R /usr/share/dict/words'
  candor isolate --cpu 1.5 --cases quota,candor --app web='./bench web' --app db='./bench db'
  candor isolate -o json >runs.json && candor report runs.json --out figures`

// isolateFlags are the flags of candor isolate.
type isolateFlags struct {
	cpu              hybrid.Milli
	rounds           int
	apps             []string
	stressors, cases string
	tmp              string
	repeatFlags
	reportFlags
}

func newIsolateCommand() *cobra.Command {
	var f isolateFlags
	cmd := &cobra.Command{
		Use:     "isolate [flags]",
		Short:   "Measure the isolation of applications from stressors",
		Long:    isolateLong,
		Example: isolateExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.Var((*milliFlag)(&f.cpu), "cpu", "CPUs of the application; the stressor gets the rest (default: half)")
	flags.IntVarP(&f.rounds, "runs", "n", 10, "runs of each application per case and stressor")
	flags.StringArrayVar(&f.apps, "app", nil, "NAME=COMMAND, or NAME of a built-in application; repeatable")
	flags.StringVar(&f.stressors, "stressors", strings.Join(experiment.StressorNames, ","), "stressors, separated by commas")
	complete(cmd, "stressors", experiment.StressorNames)
	var names []string
	for _, c := range experiment.Cases {
		names = append(names, string(c))
	}
	flags.StringVar(&f.cases, "cases", strings.Join(names, ","), "cases, separated by commas; the first is the baseline")
	complete(cmd, "cases", names)
	flags.StringVar(&f.tmp, "tmp", "/var/tmp", "directory for files of stressors and applications; 1 GiB must be free")
	must(cmd.MarkFlagDirname("tmp"))
	f.repeatFlags.add(cmd)
	f.reportFlags.add(cmd)
	return cmd
}

// run measures and shows the runs. If the user interrupts the measurement, run shows the completed runs.
func (f *isolateFlags) run(cmd *cobra.Command) error {
	i, err := f.isolation()
	if err != nil {
		return err
	}
	if err := f.prepare(); err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	report, err := f.measure(ctx, cmd, &i)
	if report == nil {
		return withoutResult(ctx, err)
	}
	return f.finish(ctx, cmd.OutOrStdout(), expreport.Isolation{IsolationReport: report}, len(report.Runs), err)
}

// isolation returns the experiment that the command line describes.
func (f *isolateFlags) isolation() (experiment.Isolation, error) {
	i := experiment.Isolation{Limit: f.cpu, Rounds: f.rounds, Seed: f.seed, Tmp: f.tmp}
	for text := range strings.SplitSeq(f.cases, ",") {
		c, err := experiment.ParseCase(text)
		if err != nil {
			return i, badInput("--cases: %w", err)
		}
		i.Cases = append(i.Cases, c)
	}
	for name := range strings.SplitSeq(f.stressors, ",") {
		s, err := experiment.NewStressor(name)
		if err != nil {
			return i, badInput("--stressors: %w", err)
		}
		i.Stressors = append(i.Stressors, s)
	}
	for _, text := range f.apps {
		a, err := f.application(text)
		if err != nil {
			return i, err
		}
		i.Applications = append(i.Applications, a)
	}
	if len(f.apps) == 0 {
		for _, a := range apps.All {
			i.Applications = append(i.Applications, f.defaultApplication(a.Name))
		}
	}
	return i, experimentError(i.Check())
}

// application parses a value of --app.
func (f *isolateFlags) application(text string) (a experiment.NamedWorkload, err error) {
	name, command, named := strings.Cut(text, "=")
	switch {
	case !named && slices.ContainsFunc(apps.All, func(a apps.App) bool { return a.Name == text }):
		return f.defaultApplication(text), nil
	case !named || name == "":
		var names []string
		for _, a := range apps.All {
			names = append(names, a.Name)
		}
		return a, badInput("--app %.60q: must be NAME=COMMAND, or one of %s", text, strings.Join(names, ", "))
	}
	if err := checkShellWord(command); err != nil {
		return a, err
	}
	w := experiment.Workload{Command: []string{"/bin/sh", "-c", command}, Timeout: f.timeout}
	return experiment.NamedWorkload{Name: name, Workload: w}, nil
}

func (f *isolateFlags) defaultApplication(name string) experiment.NamedWorkload {
	w := experiment.Workload{Command: []string{"/proc/self/exe", appCommand, name}, Timeout: f.timeout}
	return experiment.NamedWorkload{Name: name, Workload: w}
}

// measure runs the experiment in a lab and shows its progress. It saves the partial report after each round.
func (f *isolateFlags) measure(ctx context.Context, cmd *cobra.Command, i *experiment.Isolation) (report *experiment.IsolationReport, err error) {
	l, err := openLab()
	if err != nil {
		return nil, err
	}
	defer func() { err = errline.Join(err, l.Close()) }()
	now := latest[stage]{value: stage{text: "each program once, to try it"}}
	i.Progress = func(s experiment.IsolationStage) {
		now.set(stage{text: fmt.Sprintf("run %d of %d, %s", s.Run, s.Runs, s.Doing), share: float64(s.Run-1) / float64(s.Runs)})
		if s.Run > 1 && s.Run%(s.Runs/i.Rounds) == 1 {
			soFar := *s.Report
			soFar.Stopped, soFar.Partial = true, true
			f.keep(&soFar)
		}
	}
	end := showProgress(cmd.ErrOrStderr(), now.get)
	defer end()
	return i.Run(ctx, l)
}

// appCommand is the hidden subcommand that runs a built-in application.
const appCommand = "internal-app"

func newInternalAppCommand() *cobra.Command {
	return &cobra.Command{
		Use:                appCommand + " NAME",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := apps.Run(args[0], 1, os.TempDir())
			if errors.Is(err, apps.ErrNoApp) {
				return badInput("%w", err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), result)
			return err
		},
	}
}
