package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/engine/client"
	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
)

// experimentFlags are the flags of experiments with a workload.
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

// addCommon adds the flags that candor classify also has.
func (f *experimentFlags) addCommon(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.better, "better", nil, "which values are better: lower (default) or higher; NAME=higher for metric NAME")
	complete(cmd, "better", betterWords)
	flags.StringVar(&f.server, "server", "", "server command to measure (shell words); it must stay in the foreground")
	flags.StringVar(&f.client, "client", "", "client of --server (shell words), without a limit; its output has the results")
	f.imageFlags.add(cmd)
	f.repeatFlags.add(cmd)
}

// repeatFlags are the flags of commands that repeat runs.
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
		return badInput("--server and --client: must be given together")
	case len(w.Command) > 0:
		return badInput("--server and --client: cannot be combined with -- COMMAND")
	case f.image != "":
		return badInput("--server and --client: cannot be combined with --image")
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
		return nil // syntax of the shell, which reports errors itself
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
			return badInput("--better %.60q: must be one of %s, or NAME=higher", text, strings.Join(betterWords, ", "))
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

// imageFlags are the flags of a workload in a container image.
type imageFlags struct {
	image       string
	engine      choice
	engineFlags string
	found       *experiment.Image // result of find; nil before
}

func (f *imageFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.image, "image", "", "image of the container to run; words after -- are its arguments")
	f.engine = choice{"", client.Names}
	wordFlag(cmd, &f.engine, client.Names, "engine", "", "container engine (default: the first that answers)")
	flags.StringVar(&f.engineFlags, "engine-flags", "", "additional flags of docker create or podman create, such as '-v /data:/data'")
}

// put adds the image to a workload, if --image is set. It checks the engine and the image before the first run.
func (f *imageFlags) put(w *experiment.Workload) error {
	if f.image == "" {
		if f.engine.value != "" || f.engineFlags != "" {
			return badInput("--engine and --engine-flags are for --image IMAGE")
		}
		return nil
	}
	if f.found == nil {
		image, err := f.find()
		if err != nil {
			return experimentError(err)
		}
		f.found = image
	}
	w.Image = f.found
	return nil
}

func (f *imageFlags) find() (*experiment.Image, error) {
	words, err := splitWords(f.engineFlags)
	if err == nil {
		err = client.CheckFlags(words)
	}
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	e, err := client.Find(ctx, f.engine.value)
	if err != nil {
		return nil, err
	}
	return &experiment.Image{Name: f.image, Flags: words, Engine: *e}, e.CheckImage(ctx, f.image)
}

// splitWords splits words as a shell reads them.
func splitWords(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	out, err := exec.Command("/bin/sh", "-c", "printf '%s\\0' "+text).Output()
	if err != nil {
		return nil, badInput("cannot split %.60q into words: use the quoting of a shell", text)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// reportFlags select the output of a report.
type reportFlags struct {
	out    string
	output choice
}

func (f *reportFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.out, "out", "", "directory for the report: box plots, Markdown, HTML and JSON")
	f.output = choice{"table", []string{"table", "wide", "json", "markdown"}}
	wordFlag(cmd, &f.output, f.output.of, "output", "o", "output format")
	must(cmd.MarkFlagDirname("out"))
}

// prepare creates the directory, so that an error shows before the long work.
func (f *reportFlags) prepare() error {
	if f.out == "" {
		return nil
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return badInput("--out: %w", err)
	}
	file, err := os.CreateTemp(f.out, ".candor-*")
	if err != nil {
		return badInput("--out: %w", err)
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// keep saves the partial report, in case the process is killed. It ignores errors, because the final write
// reports them.
func (f *reportFlags) keep(r interface{ Write(io.Writer) error }) {
	if f.out != "" {
		_ = fileio.WriteFolder(f.out, []fileio.File{{Name: "report.json", Write: r.Write}})
	}
}

// A shown is a report that can be written in several formats.
type shown interface {
	Write(out io.Writer) error // as JSON
	Markdown(out io.Writer) error
	Text(out io.Writer, width int) error // width of the terminal; 0: unlimited
	Files() []fileio.File                // for the directory of --out
}

// finish shows the completed runs, also after an interrupt. ctx and err are the context and the error of the experiment.
func (f *reportFlags) finish(ctx context.Context, out io.Writer, r shown, runs int, err error) error {
	stopped := errors.Is(err, context.Canceled)
	if runs == 0 {
		return withoutResult(ctx, err)
	}
	if writeErr := f.write(out, r); writeErr != nil {
		return writeErr
	}
	if stopped {
		return stoppedError(ctx, "%s done", count(runs, "run", "runs"))
	}
	return experimentError(err)
}

// withoutResult returns the error of an experiment that has ended without a result: an error of the experiment, or a signal.
func withoutResult(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) {
		return stoppedError(ctx, "no run done")
	}
	return experimentError(err)
}

// write writes a report to out, and its files to the directory of --out.
func (f *reportFlags) write(out io.Writer, r shown) (err error) {
	switch f.output.value {
	case "json":
		err = r.Write(out)
	case "markdown":
		err = r.Markdown(out)
	default:
		err = r.Text(out, tableWidth(out, &f.output))
	}
	if f.out == "" {
		return err
	}
	return errline.Join(err, fileio.WriteFolder(f.out, r.Files()))
}
