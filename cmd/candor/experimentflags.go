package main

import (
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/host/launch"
)

// experimentFlags are those of every command that runs experiments.
type experimentFlags struct {
	rounds, warmUps int
	name            string
	metrics         []string
	better          []string
	server, client  string
	repeatFlags
	imageFlags
	reportFlags
}

func (f *experimentFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVarP(&f.rounds, "runs", "n", 10, "runs of each setup")
	flags.IntVar(&f.warmUps, "warm-up", 1, "discarded runs of each setup before the measurement")
	flags.StringVar(&f.name, "name", "", "program name in reports (default: name of its file)")
	f.addCommon(cmd)
	f.reportFlags.add(cmd)
	flags.StringArrayVar(&f.metrics, "metric", nil, "[NAME=]regular expression or JSON path of a metric; repeatable")
}

// addCommon adds those that classify has, too.
func (f *experimentFlags) addCommon(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.better, "better", nil, "better values: lower (default), higher or NAME=higher; repeatable")
	complete(cmd, "better", betterWords)
	flags.StringVar(&f.server, "server", "", "server command to measure (shell words); it must stay in the foreground")
	flags.StringVar(&f.client, "client", "", "client command without a limit (shell words); the source of the results")
	f.imageFlags.add(cmd)
	f.repeatFlags.add(cmd)
}

// repeatFlags are those of everything that is run many times.
type repeatFlags struct {
	timeout time.Duration
	seed    uint64
}

func (f *repeatFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.timeout, "timeout", experiment.DefaultTimeout, "timeout of a run")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the random order")
}

// betterWords are the values of --better.
var betterWords = []string{"lower", "higher"}

// workload returns the workload that the command line describes.
func (f *experimentFlags) workload(args []string) (experiment.Workload, error) {
	w := experiment.Workload{Name: f.name, Command: args, Timeout: f.timeout}
	if err := f.serve(&w); err != nil {
		return w, err
	}
	if err := f.imageFlags.put(&w); err != nil {
		return w, err
	}
	for _, text := range f.metrics {
		m, err := experiment.ParseMetric(text)
		if err != nil {
			return w, badInput("%w", err)
		}
		w.Metrics = append(w.Metrics, m)
	}
	return w, f.setBetter(w.Metrics)
}

// serve puts the server and its client into a workload.
func (f *experimentFlags) serve(w *experiment.Workload) error {
	switch {
	case f.server == "" && f.client == "":
		return nil
	case f.server == "" || f.client == "":
		return badInput("want both --server COMMAND and --client COMMAND")
	case len(w.Command) > 0:
		return badInput("want either --server with --client, or -- COMMAND")
	case f.image != "":
		return badInput("want either --server with --client, or --image")
	}
	for _, text := range []string{f.server, f.client} {
		if err := checkShellWord(text); err != nil {
			return err
		}
	}
	w.Server, w.Command = []string{"/bin/sh", "-c", f.server}, []string{"/bin/sh", "-c", f.client}
	if w.Name == "" {
		w.Name = strings.Fields(f.server)[0]
	}
	return nil
}

// checkShellWord refuses a shell command whose first word is not a command.
func checkShellWord(text string) error {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return badInput("no command in %q", text)
	}
	if strings.ContainsAny(fields[0], "=$'\"`(){};&|<>*?\\") {
		return nil // the shell's own words: it says what is wrong
	}
	if exec.Command("/bin/sh", "-c", `command -v -- "$0"`, fields[0]).Run() == nil {
		return nil
	}
	_, err := launch.FindProgram(fields[0])
	return hostError(err)
}

// setBetter sets which values of metrics are better.
func (f *experimentFlags) setBetter(metrics []experiment.Metric) error {
	for _, text := range f.better {
		name, word, named := "", text, false
		if at := strings.LastIndexByte(text, '='); at >= 0 {
			name, word, named = text[:at], text[at+1:], true
		}
		if !slices.Contains(betterWords, word) {
			return badInput("--better %.60q: want one of %s, or NAME=higher", text, strings.Join(betterWords, ", "))
		}
		found := false
		for i := range metrics {
			if !named || metrics[i].Name == name {
				metrics[i].HigherIsBetter = word == "higher"
				found = true
			}
		}
		if named && !found {
			return badInput("--better %.60q: no --metric is called %.40q", text, name)
		}
	}
	return nil
}
