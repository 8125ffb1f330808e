package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/bandwidth/advise"
	"github.com/candor-project/candor/bandwidth/timescale"
)

const adviseLong = `Say which CPU limit, period and burst a recorded container needs: what was recorded is replayed
under many of them, in a model of the kernel's bandwidth control.

THROTTLED is the share of the periods; DELAY how much later the work is done than without
a limit, of half of it and of 99 %; OVERRUN the longest time for which the container uses
more than its limit without a break, which a neighbour may have to wait. A limit is what
the container reserves. The last rows are whole CPUs of its own (class sensitive), with as many threads.

A target is throttled<1%, delay-p50<1ms or delay-p99<5ms, or several by comma.`

const adviseExample = `  candor advise web.usage
  candor advise web.usage --target 'delay-p99<5ms'
  candor advise node.usage --group /kubepods/pod1/web --node-cpus 16 --period 100ms,1s`

// adviseFlags are the flags of candor advise.
type adviseFlags struct {
	group, target string
	cpus          int
	periods       []time.Duration
	output        *choice
}

func newAdviseCommand() *cobra.Command {
	f := &adviseFlags{}
	cmd := &cobra.Command{
		Use:     "advise FILE",
		Short:   "Say which limit, period and burst a recorded container needs",
		Long:    adviseLong,
		Example: adviseExample,
		Args:    oneFile,
		RunE:    f.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.group, "group", "", "the group (default: the one with most CPU time)")
	flags.StringVar(&f.target, "target", "throttled<1%", "what the setting must reach")
	complete(cmd, "target", []string{"throttled<1%", "delay-p50<1ms", "delay-p99<5ms"})
	flags.IntVar(&f.cpus, "node-cpus", 0, "CPUs of the node it shall run on (default: those it was recorded on)")
	flags.DurationSliceVar(&f.periods, "period", []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}, "periods to try, 1ms to 1s")
	f.output = outputFlag(cmd, "table", "json")
	return cmd
}

func (f *adviseFlags) run(cmd *cobra.Command, args []string) error {
	target, err := f.check(cmd)
	if err != nil {
		return err
	}
	s, err := readRecording(args[0])
	if err != nil {
		return err
	}
	if err := pick(s, f.group, 1); err != nil {
		return err
	}
	if len(s.Groups) == 0 {
		return badInput("%s: no group in the recording", args[0])
	}
	g := &s.Groups[0]
	demand, err := f.demand(args[0], s, g.Number)
	if errors.Is(err, advise.ErrUnfit) {
		return badInput("%s: %w", args[0], err)
	} else if err != nil {
		return err
	}
	r := &advise.Report{Group: shorten(errorText(g.Name), 200), Hidden: g.Hidden, Mean: demand.Mean(), Most: demand.Most(), Target: target}
	r.Outcomes = demand.TryAll(demand.Options(f.periods))
	write := r.Text
	if f.output.value == "json" {
		write = r.JSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	if best, ok := r.Cheapest(); !ok {
		return badInput("nothing reaches %s; the nearest is %s: throttled %.1f %%, delay p50 %v, p99 %v", target, best, 100*best.Throttled, best.P50, best.P99)
	}
	return nil
}

// check refuses flags that cannot be meant.
func (f *adviseFlags) check(cmd *cobra.Command) (advise.Target, error) {
	if cmd.Flags().Changed("node-cpus") && (f.cpus < 1 || f.cpus > maxNodeCPUs) {
		return nil, badInput("--node-cpus %d: want 1 to %d", f.cpus, maxNodeCPUs)
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

const maxNodeCPUs = 4096

// demand reads what a group of a recording used as what it wanted.
func (f *adviseFlags) demand(file string, s *timescale.Summary, group int) (*advise.Demand, error) {
	cpus := f.cpus
	if cpus == 0 {
		cpus = min(max(s.CPUs, 1), maxNodeCPUs)
	}
	d, err := advise.NewDemand(s.Interval, cpus)
	if err != nil {
		return nil, err
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, badInput("%w", err)
	}
	defer in.Close()
	if err := timescale.EachStep(in, group, d.Add); err != nil {
		return nil, err
	}
	return d, d.Prepare()
}
