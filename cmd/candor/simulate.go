package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/simreport"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/simulate"
	"github.com/candor-project/candor/trace"
)

const simulateLong = `Simulate the allocation on a whole cluster. The command replays a trace, in which some
containers are sensitive (they get CPUs of their own) and the others are flexible (they
share CPUs). It shows the shared time S, the rejects R, the load of the machines, and how
long the allocator takes for a decision.

S  shared time: percentage of the sensitive containers' CPU time that is on CPUs which
   other containers can also use
R  rejects: percentage of the sensitive containers that were refused although a node
   had enough CPU time. The free time was not in whole CPUs, so the container would
   have seen more CPUs than its limit.

--sensitive selects the sensitive containers: a random share of the containers, the
latency-sensitive classes of the trace (by-class), or the containers that a file lists
(by=FILE).

A point of the report is one replay with one algorithm, policy, scheduler and share of
sensitive containers. The command replays all combinations, in parallel on all cores.

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
		Short:   "Replay a trace to simulate the allocation on a whole cluster",
		Long:    simulateLong,
		Example: simulateExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return badInput("argument %.60q: the command takes no arguments; use --trace for the trace", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

// run replays the trace for each point, which is a combination of settings. If the user interrupts the replay, run shows the
// points that have started, and marks the incomplete points.
func (f *simulateFlags) run(cmd *cobra.Command) error {
	setting, header, err := f.setting()
	if err != nil {
		return err
	}
	report := &simreport.Report{Setting: setting.Describe(header, f.sensitive.text)}
	if err := f.prepare(); err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	points := f.points()
	setting.Progress = &simulate.Progress{}
	end := showProgress(cmd.ErrOrStderr(), func() stage { return pointsStage(setting.Progress, header.Events, len(points)) })
	report.Points, err = f.replay(ctx, setting, points)
	end()
	report.Setting.Report = setting.Progress.Report()
	stopped := errors.Is(err, context.Canceled)
	report.Partial = stopped
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
		return stoppedError(ctx, "started %d of %s", len(report.Points), count(len(points), "point", "points"))
	}
	return nil
}

// pointsStage returns the progress of the replays. eventsEach is the trace's number of events; if it is 0, pointsStage
// estimates it from the finished points.
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

// replay replays the points or, with --size, searches the smallest number of machines for each point.
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

// write writes the results to out, and their files to the directory of --out.
func (f *simulateFlags) write(out io.Writer, r *simreport.Report) error {
	if f.out != "" {
		if err := fileio.WriteFolder(f.out, r.Files()); err != nil {
			return err
		}
	}
	if f.output.value == "json" {
		return r.JSON(out)
	}
	return r.Text(out, tableWidth(out, f.output))
}

// own stands for the default scheduler of an algorithm.
const own = "own"

// schedulerWords are the rankings by which a scheduler can choose nodes.
var schedulerWords = []string{own, "least", "most", "paper", "candor"}

// simulateFlags are the flags of candor simulate.
type simulateFlags struct {
	trace      string
	options    trace.Options
	cores      float64
	overcommit float64
	machines   int
	seed       uint64
	sensitive  sensitiveFlag
	algorithms words
	policies   words
	schedulers words
	size       string
	gainFile   string
	out        string
	output     *choice

	target *simulate.Target
	gain   *simulate.Gain
}

func (f *simulateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.trace, "trace", "", "trace to replay")
	flags.Float64Var(&f.cores, "cores-of-largest", 16, "CPUs of the largest machine, for traces that give CPU as a fraction of it")
	flags.Float64Var(&f.overcommit, "overcommit", 1, "overcommit factor: multiplies each machine's CPU count")
	flags.IntVar(&f.machines, "machines", 0, "number of machines, in the trace's proportions; 0: the trace's machines")
	f.sensitive = sensitiveFlag{"0.5", []simulate.Selection{{Share: 0.5}}}
	flags.Var(&f.sensitive, "sensitive", "sensitive share (0.5), list of shares, FROM:TO:STEP, by-class or by=FILE")
	wordsFlag(cmd, &f.algorithms, algorithmWords, algorithmWords, "algorithm", "allocation algorithm; paper: Algorithm 1 of Bacou et al., SCC 2019")
	wordsFlag(cmd, &f.policies, policyWords, policyWords[:1], "policy", "strict refuses a container that would see more CPUs than its limit, rounded up")
	wordsFlag(cmd, &f.schedulers, schedulerWords, []string{own}, "scheduler", "ranking of nodes (docs/reference/ranking.md); own: the algorithm's ranking")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the choice of sensitive containers")
	flags.StringVar(&f.size, "size", "", "find the fewest machines that meet a target, such as 's<5%,r=0'")
	flags.StringVar(&f.gainFile, "gain", "", "file with measured speeds of workloads, to estimate the gain in speed")
	flags.StringVar(&f.out, "out", "", "directory for figures and tables")
	lenientFlag(cmd, &f.options)
	f.output = outputFlag(cmd, "table", "wide", "json")
	complete(cmd, "sensitive", []string{"0.5", "0:1:0.1", "by-class", "by="})
	must(cmd.RegisterFlagCompletionFunc("trace", completeTraces))
}

// setting checks the flags, and returns the setting and the header of the trace.
func (f *simulateFlags) setting() (simulate.Setting, trace.Header, error) {
	s := simulate.Setting{
		Open:           func() (trace.Reader, error) { return trace.Open(f.trace, f.options) },
		CoresOfLargest: f.cores, Overcommit: f.overcommit, Machines: f.machines, Seed: f.seed,
	}
	if f.trace == "" {
		return s, trace.Header{}, missing("--trace", "a trace of a kind that candor simulate --help lists")
	}
	if err := s.Check(); err != nil {
		return s, trace.Header{}, badInput("%w", err)
	}
	if f.machines != 0 && f.size != "" {
		return s, trace.Header{}, badInput("--machines and --size: use one of them; --size searches the number of machines")
	}
	r, err := openTrace(f.trace, f.options)
	if err != nil {
		return s, trace.Header{}, err
	}
	return s, r.Header(), r.Close()
}

// prepare reads the small inputs and creates the directory, so that an error shows before the long work.
func (f *simulateFlags) prepare() error {
	if f.size != "" {
		target, err := simulate.ParseTarget(f.size)
		if err != nil {
			return badInput("--size: %w", err)
		}
		f.target = &target
	}
	if f.gainFile != "" {
		gain, err := readWith(f.gainFile, simulate.ReadGain)
		if err != nil {
			return badInput("--gain: %w", err)
		}
		f.gain = &gain
	}
	if f.out != "" {
		return os.MkdirAll(f.out, 0o755)
	}
	return nil
}

// readWith opens a small file and parses it with read.
func readWith[T any](path string, read func(r io.Reader, name string) (T, error)) (T, error) {
	file, err := os.Open(path)
	if err != nil {
		var none T
		return none, err
	}
	v, err := read(file, path)
	return v, errors.Join(err, file.Close())
}

// points returns each combination of the flags' values once.
func (f *simulateFlags) points() []simulate.Point {
	var list []simulate.Point
	for _, a := range f.algorithms.values {
		for _, p := range f.policies.values {
			for _, o := range f.schedulers.values {
				for _, s := range f.sensitive.selections {
					point := pointOf(a, p, o)
					point.Sensitive = s
					if !slices.Contains(list, point) {
						list = append(list, point)
					}
				}
			}
		}
	}
	return list
}

// pointOf returns the point for words that were checked before.
func pointOf(algorithm, policy, scheduler string) simulate.Point {
	var p simulate.Point
	must(p.Algorithm.UnmarshalText([]byte(algorithm)))
	must(p.Policy.UnmarshalText([]byte(policy)))
	if p.Scheduler = simulate.DefaultScheduler(p.Algorithm); scheduler != own {
		must(p.Scheduler.UnmarshalText([]byte(scheduler)))
	}
	return p
}

// must panics on an error that only a bug in this program can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
