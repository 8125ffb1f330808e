package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/bandwidth/advise"
	"github.com/candor-project/candor/bandwidth/timescale"
	"github.com/candor-project/candor/internal/figure"
)

const adviseLong = `Recommend a CPU limit, period and burst for a container. The command reads a recording of
candor record, and replays it with many settings in a model of the kernel's bandwidth
control. It prints the setting with the lowest limit that meets --target. --all adds a
table of all settings:

THROTTLED  share of the periods in which the quota ran out
DELAY      delay of the work in comparison with no limit: median and 99th percentile
OVERRUN    longest continuous time of use above the limit, which a burst allows; other
           containers on the same CPUs may have to wait that long

Each row of the table is a setting. The first rows enforce a limit with a quota, on CPUs
that containers share. The last rows give the container exclusive CPUs instead (class
sensitive), and assume that the program starts as many threads as it sees CPUs.

With --hops N, the delay is the delay of a request that passes through N such containers,
and whose answer returns through all of them.

With several recordings, or with --node-cpus, the report also shows how many containers
with the recorded CPU use fit on a node. Each recording stands for the same number of
containers. The report compares the lowest limits that meet the target without a burst,
the lowest limits that meet it with a burst, and no limits. -o svg and -o png draw this
result.

--target takes a list, separated by commas, of targets such as throttled<1%,
delay-p50<1ms and delay-p99<5ms. A recording must be long enough to verify the target
with a confidence of 95 %: throttled<1% and delay-p99 need 299 windows in which the
container had work. A window is 100 ms, or the period of the setting if that is longer.
If the recording is too short, the command prints how long to record, gives no answer
and exits with code 3.`

const adviseExample = `  candor advise web.usage
  candor advise web.usage --target 'delay-p99<5ms' --all
  candor advise node.usage --group /kubepods/pod1/web --period 100ms,1s
  candor advise web.usage --from 10m --to 15m
  candor advise web.usage --hops 4 --target 'delay-p99<20ms'
  candor advise --node-cpus 16 web.usage db.usage queue.usage
  candor advise --node-cpus 16 web.usage -o svg >node.svg`

// adviseFlags are the flags of candor advise.
type adviseFlags struct {
	group, target string
	part          *timescale.Part
	cpus, hops    int
	risk          float64
	periods       []time.Duration
	all           bool
	output        *choice
}

func newAdviseCommand() *cobra.Command {
	f := &adviseFlags{}
	cmd := &cobra.Command{
		Use:     "advise FILE...",
		Short:   "Recommend a limit, period and burst for a recorded container",
		Long:    adviseLong,
		Example: adviseExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return missing("FILE", "one recording of candor record or more")
			}
			return nil
		},
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.group, "group", "", "cgroup to analyze (default: the cgroup with the most CPU time)")
	flags.StringVar(&f.target, "target", "throttled<1%", "target that the recommended setting must meet")
	complete(cmd, "target", []string{"throttled<1%", "delay-p50<1ms", "delay-p99<5ms"})
	f.part = addPartFlags(cmd)
	flags.IntVar(&f.hops, "hops", 1, "number of containers that a request and its answer pass through")
	flags.IntVar(&f.cpus, "node-cpus", 0, "CPUs of the node to fill (default: CPUs of the recorded machine)")
	flags.Float64Var(&f.risk, "risk", 1, "accepted % of time in which unlimited containers need more CPUs than the node")
	flags.DurationSliceVar(&f.periods, "period", []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}, "periods to try, 1ms to 1s")
	flags.BoolVar(&f.all, "all", false, "also print a table of all settings")
	f.output = outputFlag(cmd, "table", "json", "svg", "png")
	return cmd
}

func (f *adviseFlags) run(cmd *cobra.Command, files []string) error {
	target, err := f.check(cmd, len(files))
	if err != nil {
		return err
	}
	recordings, err := f.read(files)
	if err != nil {
		return err
	}
	all := &advise.Reports{Differences: unlike(files, recordings)}
	var demands []*advise.Demand
	for i, file := range files {
		r, demand, err := f.report(file, recordings[i])
		if errors.Is(err, advise.ErrUnfit) {
			return badInput("%s: %w", file, err)
		} else if err != nil {
			return err
		}
		r.Target = target
		all.List, demands = append(all.List, r), append(demands, demand)
	}
	if len(files) > 1 || f.cpus > 0 {
		all.Fill(advise.NewNode(demands[0].CPUs, f.risk/100, demands))
	}
	missing := missingAnswer(files, all)
	if f.isPicture() && missing != nil {
		return missing
	}
	return cmp.Or(f.write(cmd.OutOrStdout(), all), missing)
}

// missingAnswer returns an error if a recording has no answer: no setting meets the target, or the recording is too short. The
// error describes the first such recording.
func missingAnswer(files []string, all *advise.Reports) error {
	for i, r := range all.List {
		if _, isKnown := r.Answer(); isKnown {
			continue
		}
		if s := r.Shortage(); s != nil {
			return undecided(fmt.Sprintf("%s: too short for an answer: %s; record for %s or longer", files[i], s, timescale.Length(s.RecordFor())))
		}
		best, _ := r.Cheapest()
		return badInput("%s: nothing reaches %s; the nearest is %s: throttled %.1f %%, delay p50 %v, p99 %v", files[i], r.Target, best, 100*best.Throttled, best.P50, best.P99)
	}
	return nil
}

// isPicture reports whether the output format is an image.
func (f *adviseFlags) isPicture() bool { return f.output.value == "svg" || f.output.value == "png" }

// write writes the recommendations in the requested format.
func (f *adviseFlags) write(out io.Writer, all *advise.Reports) error {
	switch f.output.value {
	case "table":
		return all.Text(out, f.all)
	case "json":
		return all.JSON(out)
	}
	p, err := all.Plot()
	if err != nil {
		return err
	}
	if f.output.value == "svg" {
		return figure.SVG(out, p)
	}
	return figure.PNG(out, p)
}

// read summarizes all recordings. If their machines differ in the number of CPUs, --node-cpus is required.
func (f *adviseFlags) read(files []string) (all []*timescale.Summary, err error) {
	for _, file := range files {
		s, err := readRecording(file, f.part)
		if err != nil {
			return nil, err
		}
		if err := pick(s, f.group, 1); err != nil {
			return nil, err
		}
		if len(s.Groups) == 0 {
			return nil, badInput("%s: no group in the recording", file)
		}
		if f.cpus == 0 && len(all) > 0 && s.CPUs != all[0].CPUs {
			return nil, badInput("%s is of a machine with %d CPUs, %s of one with %d: use --node-cpus N", files[0], all[0].CPUs, file, s.CPUs)
		}
		all = append(all, s)
	}
	return all, nil
}

// unlike returns a warning if two recordings are from machines with different CPU models, else "". It ignores recordings
// without a CPU model.
func unlike(files []string, all []*timescale.Summary) string {
	for i, s := range all {
		if a, b := all[0].Model, s.Model; a != "" && b != "" && a != b {
			return fmt.Sprintf("%s was recorded on %s, %s on %s: a second of one's CPU time is not one of the other's", files[0], errorText(a), files[i], errorText(b))
		}
	}
	return ""
}

// report replays the recorded CPU use of the first cgroup of s under each setting that advise tries. It returns the report of the
// settings, and the demand: the CPU use to replay.
func (f *adviseFlags) report(file string, s *timescale.Summary) (*advise.Report, *advise.Demand, error) {
	g := &s.Groups[0]
	d, err := f.demand(file, s, g.Number)
	if err != nil {
		return nil, nil, err
	}
	r := &advise.Report{Group: shorten(errorText(g.Name), 200), HiddenDemand: g.HiddenDemand, Mean: d.Mean(), MaxThreads: d.MaxThreads(),
		BusyWindows: d.BusyWindows(), Span: d.Span(), Hops: f.hops, Ancestor: g.Ancestor, Phases: g.Phases(), Interference: s.Interference, Record: recordCommand(file, g.Name, s.Interval)}
	r.Outcomes = d.TryAll(d.Options(f.periods))
	return r, d, nil
}

// check returns the target of --target. It returns an error if a flag is invalid, or if two flags exclude each other.
func (f *adviseFlags) check(cmd *cobra.Command, files int) (advise.Target, error) {
	if cmd.Flags().Changed("node-cpus") && (f.cpus < 1 || f.cpus > maxNodeCPUs) {
		return nil, badInput("--node-cpus %d: must be 1 to %d", f.cpus, maxNodeCPUs)
	}
	if f.isPicture() && files == 1 && f.cpus == 0 {
		return nil, badInput("-o %s: %w", f.output.value, advise.ErrNoNode)
	}
	if f.hops < 1 || f.hops > maxHops {
		return nil, badInput("--hops %d: must be 1 to %d", f.hops, maxHops)
	}
	if !(f.risk >= 0 && f.risk <= 100) {
		return nil, badInput("--risk %v: must be 0 to 100 (%%)", f.risk)
	}
	for _, period := range f.periods {
		if err := (bandwidth.Bandwidth{Quota: time.Second, Period: period}).Check(); err != nil {
			return nil, badInput("--%w", err)
		}
	}
	target, err := advise.ParseTarget(f.target)
	if err != nil {
		return nil, badInput("--%w", err)
	}
	return target, nil
}

const (
	maxNodeCPUs = 4096
	maxHops     = 64
)

// demand reads the recorded CPU use of a cgroup, and returns this use as the demand in the model.
func (f *adviseFlags) demand(file string, s *timescale.Summary, group int) (*advise.Demand, error) {
	cpus := f.cpus
	if cpus == 0 {
		cpus = min(max(s.CPUs, 1), maxNodeCPUs)
	}
	d, err := advise.NewDemand(s.Interval, cpus)
	if err != nil {
		return nil, err
	}
	d.Hops = f.hops
	in, err := os.Open(file)
	if err != nil {
		return nil, badInput("%w", err)
	}
	defer in.Close()
	if err := timescale.EachStep(in, *f.part, group, d.Add); err != nil {
		return nil, err
	}
	return d, d.Prepare()
}
