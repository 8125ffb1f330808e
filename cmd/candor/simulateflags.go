package main

import (
	"errors"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/simulate"
	"github.com/candor-project/candor/trace"
)

// own is the scheduler that an algorithm was made with.
const own = "own"

// schedulerWords are the orders in which nodes are chosen.
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
	flags.Float64Var(&f.cores, "cores-of-largest", 16, "CPUs of the largest machine, for traces in fractions of it")
	flags.Float64Var(&f.overcommit, "overcommit", 1, "overcommit factor: multiplies each machine's CPU count")
	flags.IntVar(&f.machines, "machines", 0, "number of machines with the trace's mix; 0: the trace's machines")
	f.sensitive = sensitiveFlag{"0.5", []simulate.Selection{{Share: 0.5}}}
	flags.Var(&f.sensitive, "sensitive", "sensitive share: 0.5, 0.1,0.5, 0:1:0.1, by-class or by=FILE")
	wordsFlag(cmd, &f.algorithms, algorithmWords, algorithmWords, "algorithm", "allocation algorithm")
	wordsFlag(cmd, &f.policies, policyWords, policyWords[:1], "policy", "policy for a container whose view cannot equal its limit")
	wordsFlag(cmd, &f.schedulers, schedulerWords, []string{own}, "scheduler", "node order; own is the default of the algorithm")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the choice of sensitive containers")
	flags.StringVar(&f.size, "size", "", "target for the fewest machines, such as 's<5%,r=0'")
	flags.StringVar(&f.gainFile, "gain", "", "file with measured speeds of workloads, to estimate the gain")
	flags.StringVar(&f.out, "out", "", "directory for figures and tables")
	lenientFlag(cmd, &f.options)
	f.output = outputFlag(cmd, "table", "json")
	complete(cmd, "sensitive", []string{"0.5", "0:1:0.1", "by-class", "by="})
	must(cmd.RegisterFlagCompletionFunc("trace", completeTraces))
}

// setting checks the flags and opens the trace once.
func (f *simulateFlags) setting() (simulate.Setting, trace.Header, error) {
	s := simulate.Setting{
		Open:           func() (trace.Reader, error) { return trace.Open(f.trace, f.options) },
		CoresOfLargest: f.cores, Overcommit: f.overcommit, Machines: f.machines, Seed: f.seed,
	}
	if f.trace == "" {
		return s, trace.Header{}, badInput("no trace: want --trace with one of those that --help lists")
	}
	if err := s.Check(); err != nil {
		return s, trace.Header{}, badInput("%w", err)
	}
	if f.machines != 0 && f.size != "" {
		return s, trace.Header{}, badInput("--machines and --size: want one of them, --size searches the number of machines")
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

// readWith reads a small file.
func readWith[T any](path string, read func(r io.Reader, name string) (T, error)) (T, error) {
	file, err := os.Open(path)
	if err != nil {
		var none T
		return none, err
	}
	v, err := read(file, path)
	return v, errors.Join(err, file.Close())
}

// points are all that was asked for, each once.
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

// pointOf turns words that were checked before into a point.
func pointOf(algorithm, policy, scheduler string) simulate.Point {
	var p simulate.Point
	must(p.Algorithm.UnmarshalText([]byte(algorithm)))
	must(p.Policy.UnmarshalText([]byte(policy)))
	if p.Scheduler = simulate.OwnScheduler(p.Algorithm); scheduler != own {
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
