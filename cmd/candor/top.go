package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/cmd/candor/internal/top"
)

const topLong = `Show live CPU use. For each CPU, the command shows the load and the containers. For each
container, it shows the CPU time, also as a percentage of the limit, and the percentage
of the periods in which the quota ran out.

The keys c, u, t, n and l sort by CPU use, used share of the limit, throttling, name or
limit. Other keys: filter (/), open a container (enter), pause (p), change the interval
(+, -), explain (?), quit (q).

Without a terminal, or with --once, -n or -o json, the command prints a single sample
(or the number of samples in -n) and exits.`

const topExample = `  candor top
  candor top --once
  candor top --sort throttled --filter default/
  candor top -n 60 --interval 1s -o json > minute.jsonl`

// topFlags are the flags of candor top.
type topFlags struct {
	machine  *hostFlags
	output   *choice
	sort     *choice
	once     bool
	readings int
	ui       top.UI
}

func newTopCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "top",
		Short:   "Show live CPU use of CPUs and containers",
		Long:    topLong,
		Example: topExample,
		Args:    noArgs,
	}
	words := make([]string, len(top.Sorts))
	for i, s := range top.Sorts {
		words[i] = s.Word
	}
	f := &topFlags{machine: addHostFlags(cmd), output: outputFlag(cmd, "table", "json"), sort: &choice{words[0], words}}
	flags := cmd.Flags()
	wordFlag(cmd, f.sort, words, "sort", "", "sort key of the containers")
	flags.StringVar(&f.ui.Filter, "filter", "", "text that a container's name, class or state must contain")
	flags.DurationVar(&f.ui.Interval, "interval", time.Second, "time between samples, 100ms to 1m")
	flags.BoolVar(&f.once, "once", false, "print a single sample and exit")
	flags.IntVarP(&f.readings, "readings", "n", 0, "number of samples to print before the exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }
	return cmd
}

func (f *topFlags) run(cmd *cobra.Command) error {
	flags := cmd.Flags()
	switch {
	case f.ui.Interval < top.MinInterval || f.ui.Interval > top.MaxInterval:
		return badInput("--interval %v: must be %v to %v", f.ui.Interval, top.MinInterval, top.MaxInterval)
	case flags.Changed("readings") && f.readings < 1:
		return badInput("-n %d: must be 1 or more", f.readings)
	case flags.Changed("readings") && f.once:
		return badInput("--once and -n: use one of them")
	}
	for _, s := range top.Sorts {
		if s.Word == f.sort.value {
			f.ui.Sort = s.Sort
		}
	}
	h, err := f.machine.openToLook(cmd)
	if err != nil {
		return err
	}
	defer h.Close()
	source := &top.Source{Host: h, Helpers: helpers.Open()}
	defer source.Helpers.Close()
	out := cmd.OutOrStdout()
	if f.readings == 0 && !f.once && f.output.value == "table" && showsLive(out) {
		return hostError(f.live(cmd.Context(), source))
	}
	return hostError(f.print(cmd, source, out))
}

// live shows the live view until the user or a signal ends it. After a signal, the exit code is 128 plus
// the signal's number.
func (f *topFlags) live(ctx context.Context, source *top.Source) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(signals, s)
		}
	}
	code := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			code = 128 + int(s.(unix.Signal))
			end()
		case <-ctx.Done():
		}
	}()
	err := top.Live(ctx, source.Read, &f.ui, !localeIsUTF8())
	end()
	<-done
	signal.Stop(signals)
	if code != 0 {
		return &exitError{code: code}
	}
	return err
}

// showsLive reports whether an output can show a live screen.
func showsLive(out io.Writer) bool {
	file, isFile := out.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// print prints the figures between each sample and the previous sample. A signal ends the last interval early.
func (f *topFlags) print(cmd *cobra.Command, source *top.Source, out io.Writer) error {
	ctx, stop := untilSignal(cmd)
	defer stop()
	before, err := source.Read("")
	if err != nil {
		return err
	}
	tick := time.NewTicker(f.ui.Interval)
	defer tick.Stop()
	samples := max(f.readings, 1)
	for n := range samples {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		after, err := source.Read("")
		if err != nil {
			return err
		}
		if n > 0 && f.output.value == "table" {
			fmt.Fprintln(out)
		}
		figures := top.Between(before, after, "")
		figures.Partial = ctx.Err() != nil
		if err := f.write(out, figures); err != nil {
			return err
		}
		if n == 0 && f.output.value == "table" {
			for _, note := range figures.SeenNotes() {
				fmt.Fprintln(cmd.ErrOrStderr(), "candor:", note)
			}
		}
		if figures.Partial {
			return stoppedError(ctx, "%d of %s done", n, count(samples, "sample", "samples"))
		}
		before = after
	}
	return nil
}

func (f *topFlags) write(out io.Writer, figures *top.Figures) error {
	if f.output.value == "json" {
		return f.ui.JSON(out, figures)
	}
	if figures.Partial {
		fmt.Fprint(out, partialLine(fmt.Sprintf("the sample covers %v", figures.During.Round(time.Millisecond))))
	}
	o := textOptions(out, "never")
	if o.Columns == 0 {
		o.Columns = 120
	}
	for _, line := range f.ui.Draw(figures, top.Size{Columns: o.Columns, ASCII: o.ASCII}) {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
