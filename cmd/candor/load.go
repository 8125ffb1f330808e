package main

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/cmd/candor/internal/load"
)

const loadLong = `Generate a load on this machine or on a server, to try out limits.

Without a URL, all threads of the command compute at the same time. A burst ends after a
time (--for), or when each thread has used an amount of CPU time (--work). Then the
threads rest (--rest), and the next burst starts.

With a URL, each client alternates between sending and pausing, for exponentially
distributed times. While a client sends, it makes calls as fast as possible, one at a
time (closed mode). With --rate, the calls of a client are due at this rate, and each
latency counts from the due time (open mode). Therefore a call that waits behind a slow
call also counts as slow.`

const loadExample = `  candor run --class flexible --cpu 0.5 -- candor load --work 60ms --threads 2 --duration 20s
  candor load http://localhost:8080/ --clients 64 --on 60ms --off 600ms
  candor load http://localhost:8080/ --clients 8 --off 0s --rate 50 --hdr calls.hgrm -o json`

// loadFlags are the flags of candor load.
type loadFlags struct {
	bursts  load.Bursts
	clients load.Clients
	hdr     string
	length  time.Duration
	output  *choice
}

func newLoadCommand() *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:     "load [URL]",
		Short:   "Generate a bursty load on a server or on this machine",
		Long:    loadLong,
		Example: loadExample,
		Args:    atMostOne("URL"),
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.bursts.For, "for", 0, "length of each burst, without a URL")
	flags.DurationVar(&f.bursts.Work, "work", 0, "CPU time of each thread in a burst, instead of --for")
	flags.IntVar(&f.bursts.Threads, "threads", 4, "computing threads, 1 to 1024")
	flags.DurationVar(&f.bursts.Rest, "rest", 2*time.Second, "rest after each burst")
	flags.IntVar(&f.clients.Count, "clients", 64, "clients, 1 to 10000")
	flags.DurationVar(&f.clients.On, "on", 60*time.Millisecond, "mean time for which a client sends")
	flags.DurationVar(&f.clients.Off, "off", 600*time.Millisecond, "mean pause of a client; 0s disables the pauses")
	flags.Float64Var(&f.clients.Rate, "rate", 0, "calls per second and client; 0: as many as possible")
	flags.Uint64Var(&f.clients.Seed, "seed", 1, "seed of the random durations")
	flags.DurationVar(&f.length, "duration", 30*time.Second, "length of the load, 1s to 24h")
	flags.StringVar(&f.hdr, "hdr", "", "file for the histogram in the format of HdrHistogram, in ms")
	f.output = outputFlag(cmd, "table", "wide", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(cmd.Flags(), args); err != nil {
			return err
		}
		return f.run(cmd, len(args) > 0)
	}
	return cmd
}

// ofBursts are the flags that apply only without a URL, and ofClients the flags that apply only with a URL.
var (
	ofBursts  = []string{"for", "work", "threads", "rest"}
	ofClients = []string{"clients", "on", "off", "rate", "seed"}
)

// check refuses invalid combinations and values.
func (f *loadFlags) check(flags *pflag.FlagSet, args []string) error {
	if f.length < time.Second || f.length > 24*time.Hour {
		return badInput("--duration %v: must be 1s to 24h", f.length)
	}
	f.bursts.Length, f.clients.Length = f.length, f.length
	others, reason := ofClients, "is for clients: add the URL of a server"
	if len(args) > 0 {
		others, reason = ofBursts, "is for a program that computes: leave out the URL"
	}
	for _, name := range others {
		if flags.Changed(name) {
			return badInput("--%s %s", name, reason)
		}
	}
	if len(args) > 0 {
		return f.checkClients(args[0])
	}
	b := &f.bursts
	switch {
	case b.For == 0 && b.Work == 0:
		return missing("--for", "a time such as 60ms; or use --work, or the URL of a server")
	case b.For != 0 && b.Work != 0:
		return badInput("--for and --work: use one of them")
	case b.For < 0 || b.Work < 0:
		return badInput("--for %v, --work %v: must be above 0s", b.For, b.Work)
	case b.Threads < 1 || b.Threads > 1024:
		return badInput("--threads %d: must be 1 to 1024", b.Threads)
	case b.Rest < 0:
		return badInput("--rest %v: must be 0s or more", b.Rest)
	}
	return nil
}

func (f *loadFlags) checkClients(server string) error {
	c := &f.clients
	at, err := url.Parse(server)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return badInput("URL %.80q: must be such as http://localhost:8080/", server)
	case c.Count < 1 || c.Count > 10000:
		return badInput("--clients %d: must be 1 to 10000", c.Count)
	case c.On <= 0 || c.Off < 0:
		return badInput("--on %v, --off %v: must be above 0s for --on, 0s or more for --off", c.On, c.Off)
	case c.Rate != 0 && !(c.Rate >= 1e-3 && c.Rate <= 1e6): // also false for NaN
		return badInput("--rate %v: must be 0.001 to 1000000 calls a second, or 0", c.Rate)
	}
	c.URL = server
	return nil
}

// run generates the load. The first Ctrl-C ends the load early, and run prints the counts so far. The second Ctrl-C kills candor.
func (f *loadFlags) run(cmd *cobra.Command, isClient bool) error {
	if err := f.checkHDR(); err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	run := f.bursts.Run
	if isClient {
		run = f.clients.Run
	}
	report := run(ctx)
	if report.Count() == 0 && report.Problem != nil {
		return fmt.Errorf("no call was answered: %w", report.Problem)
	}
	if err := f.tell(cmd.OutOrStdout(), report, ctx.Err() != nil); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return stoppedError(ctx, "%s done", count(uint64(report.Count()), "call", "calls"))
	}
	if report.Problem != nil {
		return fmt.Errorf("%s failed, the first: %w", count(report.Errors, "call", "calls"), report.Problem)
	}
	return nil
}

// checkHDR returns an error if the file of --hdr is not writable, before the load starts. It does not
// change the content.
func (f *loadFlags) checkHDR() error {
	if f.hdr == "" {
		return nil
	}
	file, err := os.OpenFile(f.hdr, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return &exitError{exitBadInput, fmt.Errorf("--hdr: %w", err)}
	}
	return file.Close()
}

// tell writes the report. partial is true if a signal has ended the load early.
func (f *loadFlags) tell(out io.Writer, report *load.Report, partial bool) error {
	if f.hdr != "" {
		var text bytes.Buffer
		if err := report.WriteHistogram(&text); err != nil {
			return err
		}
		if err := os.WriteFile(f.hdr, text.Bytes(), 0o644); err != nil {
			return fmt.Errorf("--hdr: %w", err)
		}
	}
	if f.output.value == "json" {
		d := report.Document()
		d.Partial = partial
		return writeJSON(out, d)
	}
	if partial {
		fmt.Fprint(out, partialLine("the load was stopped"))
	}
	return report.WriteTable(out, tableWidth(out, f.output))
}
