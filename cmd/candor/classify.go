package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/profile"
)

const classifyLong = `Classify a program by measurement: is it faster if it sees only as many CPUs as its limit
allows?

A sensitive program is faster on exclusive CPUs than with the quota alone, because it
starts a thread for each CPU that it sees. A flexible program is not.

The command measures each combination of a workload (--workload) and a limit (--cpu) in
pairs of runs. Both runs have the limit as their quota. The second run also has exclusive
CPUs: as many as the limit, rounded up. After 8, 12, 18, 26 and 40 pairs, an exact
statistical test checks the results, and the measurement stops when the test decides. The
combination is sensitive if the exclusive CPUs make the program faster by more than
--margin, and flexible if the program gains less. Without a decision after 40 pairs, a
combination is undecided.

The program is sensitive if more than half of its combinations are. If undecided
combinations could change the class, the command writes no class and exits with code 3.
With --accept-undecided, such a program counts as flexible. An undecided prediction of
--probe alone has the same exit code.

With --probe, the command also traces two starts of the program, with all CPUs visible
and with a single CPU. The trace shows where the program reads the CPU count and how
many threads it starts. From the trace, the command derives a second class. If the two
classes differ, the measured class counts. Without --cpu, the command only traces the
program. This takes a few seconds.

--annotate writes the class into the pod template of a manifest. The manifest is YAML or
JSON, and can have several documents, like the output of Helm or Kustomize. The rest of
the file, such as comments, stays as it is. --object selects one of several objects.

--profile writes a CPUProfile, a Kubernetes object that sets the class of matching pods.
The name of the object is the name of the file without its extension.

With --server, the command measures a server under the limits. Once the server listens,
the program of --client runs without a limit. The output of the client has the results.

With --image, the program runs in a container, as for candor compare.`

const classifyExample = `  candor classify --cpu 1,1.5 -- ./solver input
  candor classify --cpu 1 --workload small='-n 100' --workload large='-n 10000' -- ./solver
  candor classify --cpu 0.5,1 --metric 'requests/s: ([0-9.]+)' --better higher -o json -- ./bench
  candor classify --cpu 2 --annotate deployment.yaml -- ./bench
  candor classify --cpu 2 --annotate rendered.yaml --object Deployment/web -- ./bench
  candor classify --probe -- java -jar app.jar
  candor classify --cpu 2 --profile solver.yaml --labels app=solver -- ./bench
  candor classify --cpu 2 --image solver:2 -- --bench`

// classifyFlags are the flags of candor classify.
type classifyFlags struct {
	cpus      string
	workloads []string
	margin    float64
	annotate  string
	object    string
	accept    bool
	profile   profileFlags
	metric    string
	probe     bool
	probeTime time.Duration
	experimentFlags
}

func newClassifyCommand() *cobra.Command {
	var f classifyFlags
	cmd := &cobra.Command{
		Use:     "classify --cpu N[,N...] [flags] -- COMMAND [ARG]... | --image IMAGE [flags] -- [ARG]...",
		Short:   "Classify a program as sensitive or flexible by measuring it",
		Long:    classifyLong,
		Example: classifyExample,
		RunE:    f.run,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // words after the command's name belong to the command
	flags.StringVar(&f.cpus, "cpu", "", "limits to measure, such as 0.5,1,1500m")
	flags.StringArrayVar(&f.workloads, "workload", nil, "NAME=WORDS: shell words to append to the command; repeatable")
	flags.Float64Var(&f.margin, "margin", 100*experiment.DefaultMargin, "smallest gain that counts, in percent")
	flags.StringVar(&f.annotate, "annotate", "", "manifest (YAML or JSON) that gets the class as an annotation")
	flags.StringVar(&f.object, "object", "", "object of --annotate, KIND/NAME or NAME, if the manifest has several")
	flags.BoolVar(&f.accept, "accept-undecided", false, "count an undecided program as flexible")
	f.profile.add(flags)
	flags.StringVar(&f.metric, "metric", "", "[NAME=]regular expression or JSON path of the metric (default: wall time)")
	flags.BoolVar(&f.probe, "probe", false, "trace the program's start; without --cpu, only trace")
	flags.DurationVar(&f.probeTime, "probe-for", experiment.DefaultProbeTime, "time after which the trace of a start ends")
	f.addCommon(cmd)
	f.output = choice{"table", []string{"table", "wide", "json"}}
	wordFlag(cmd, &f.output, f.output.of, "output", "o", "output format")
	return cmd
}

// run classifies the program. If the user interrupts the measurement, run shows the preliminary result.
func (f *classifyFlags) run(cmd *cobra.Command, args []string) error {
	if f.probe && f.image != "" {
		return badInput("--probe traces the start of a program, not of a container: leave out --image")
	}
	if f.probe && f.cpus == "" {
		return f.onlyProbe(cmd, args)
	}
	c, err := f.classification(args)
	if err != nil {
		return err
	}
	if _, _, err := f.texts(string(experiment.Flexible)); err != nil {
		return err // check the files before the long measurement
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	class, err := f.classify(ctx, cmd, &c)
	return f.conclude(ctx, cmd.OutOrStdout(), class, err)
}

// conclude shows the class and writes it to the manifest and the profile. err is the error of the measurement; class is nil if
// there is no result.
func (f *classifyFlags) conclude(ctx context.Context, out io.Writer, class *experiment.Class, err error) error {
	if class == nil {
		return withoutResult(ctx, err)
	}
	if err == nil && class.Class == experiment.Undecided && f.accept {
		class.Class = experiment.Flexible // class.Decided stays false
	}
	if writeErr := f.show(out, class); writeErr != nil {
		return writeErr
	}
	switch {
	case errors.Is(err, context.Canceled):
		return stoppedError(ctx, "the class is not known yet")
	case err != nil:
		return experimentError(err)
	case class.Class == experiment.Undecided:
		return undecided("the class is undecided; measure on an idle machine, with longer workloads or another --margin, or add --accept-undecided")
	}
	return f.writeClass(string(class.Class))
}

// classification returns the classification that the command line describes.
func (f *classifyFlags) classification(args []string) (experiment.Classification, error) {
	c := experiment.Classification{Metric: experiment.WallTime.Name, Margin: f.margin / 100, Seed: f.seed}
	var err error
	if c.Limits, err = f.limits(); err != nil {
		return c, err
	}
	if len(args) == 0 && f.image == "" && f.server == "" && len(f.workloads) == 0 {
		return c, missing("COMMAND", "-- COMMAND [ARG]..., or --image IMAGE")
	}
	if f.metric != "" {
		m, err := experiment.ParseMetric(f.metric)
		if err != nil {
			return c, badInput("%w", err)
		}
		c.Metric, f.metrics = m.Name, []string{f.metric}
	}
	if len(args) > 0 && f.image == "" {
		if _, err := launch.FindProgram(args[0]); err != nil {
			return c, hostError(err)
		}
	}
	if len(f.workloads) == 0 {
		w, err := f.workload(args)
		if err != nil {
			return c, err
		}
		c.Workloads = []experiment.NamedWorkload{{Name: "default", Workload: w}}
	}
	for _, text := range f.workloads {
		name, words, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return c, badInput("--workload %.60q: must be NAME=WORDS, such as small='-n 100'", text)
		}
		w, err := f.variant(args, words)
		if err != nil {
			return c, err
		}
		c.Workloads = append(c.Workloads, experiment.NamedWorkload{Name: name, Workload: w})
	}
	return c, experimentError(c.Check())
}

// limits returns the limits of --cpu.
func (f *classifyFlags) limits() (list []hybrid.Milli, err error) {
	const accepted = "limits separated by commas, such as 0.5,1,1500m"
	if f.cpus == "" {
		return nil, missing("--cpu", accepted+"; or use --probe")
	}
	for word := range strings.SplitSeq(f.cpus, ",") {
		limit, err := hybrid.ParseMilli(word)
		if err != nil {
			return nil, badInput("--cpu %.60q: must be %s", f.cpus, accepted)
		}
		list = append(list, limit)
	}
	return list, nil
}

// variant returns the workload with more words at the end of its command or, with --server, of its client.
func (f *classifyFlags) variant(args []string, words string) (experiment.Workload, error) {
	switch {
	case f.image != "": // the image can lack a shell
		more, err := splitWords(words)
		if err != nil {
			return experiment.Workload{}, err
		}
		return f.workload(slices.Concat(args, more))
	case f.server == "":
		return f.workload(withWords(args, words))
	}
	one := f.experimentFlags
	one.client += " " + words
	return one.workload(args)
}

// withWords returns a command with more words, which a shell parses. If the command is empty, the words are
// the command.
func withWords(command []string, words string) []string {
	if len(command) == 0 {
		return []string{"/bin/sh", "-c", "exec " + words}
	}
	return append([]string{"/bin/sh", "-c", `exec "$0" "$@" ` + words}, command...)
}

// classify measures the program in a lab (package experiment) and shows a line with the progress.
func (f *classifyFlags) classify(ctx context.Context, cmd *cobra.Command, c *experiment.Classification) (class *experiment.Class, err error) {
	l, err := openLab()
	if err != nil {
		return nil, err
	}
	defer func() { err = errline.Join(err, l.Close()) }()
	var opinion *experiment.Prediction
	if f.probe {
		if opinion, err = l.Probe(ctx, &c.Workloads[0].Workload, f.probeTime); err != nil {
			return nil, err
		}
	}
	var now latest[stage]
	c.Progress = func(e experiment.Evaluation, number, of int) {
		text := fmt.Sprintf("%s at %v (%d of %d): pair %d", e.Workload, e.Limit, number+1, of, e.Pairs+1)
		if e.Pairs > 0 {
			text += fmt.Sprintf(", %.3f so far", e.Ratio)
		}
		now.set(stage{text: text})
	}
	end := showProgress(cmd.ErrOrStderr(), now.get)
	defer end()
	class, err = c.Run(ctx, l)
	if class != nil {
		class.Probe = opinion
	}
	return class, err
}

// show writes the class and the measurements behind it.
func (f *classifyFlags) show(out io.Writer, c *experiment.Class) error {
	if f.output.value == "json" {
		return writeJSON(out, c)
	}
	var text strings.Builder
	if c.Partial {
		text.WriteString(partialLine("the measurement was stopped, so the class can change"))
	}
	if c.Interference != nil {
		fmt.Fprintln(&text, c.Interference.Warning())
	}
	fmt.Fprintf(&text, "class: %s", c.Class)
	if !c.Decided && c.Class == experiment.Flexible {
		text.WriteString(" (undecided, and counted as flexible)")
	}
	text.WriteString("\n\n")
	width := tableWidth(out, &f.output)
	if err := evaluationTable(c.Evaluations).Write(&text, width); err != nil {
		return err
	}
	writePrediction(&text, width, c.Probe, c.Class)
	_, err := io.WriteString(out, text.String())
	return err
}

// evaluationTable returns a table of evaluations.
func evaluationTable(all []experiment.Evaluation) *texttable.Table {
	t := &texttable.Table{Titles: []string{"WORKLOAD", "CPU", "PAIRS", "FAILED", "GAIN", "95 %", "VERDICT"}, Ranks: []int{0, 0, 2, 3, 0, 1, 0}}
	for i := range all {
		e := &all[i]
		gain, interval, verdict := "-", "-", string(e.Verdict)
		if e.Pairs > 0 {
			gain = fmt.Sprintf("%.3f", e.Ratio)
			if e.Interval.IsKnown() {
				interval = fmt.Sprintf("%.3f to %.3f", e.Interval.Low, e.Interval.High)
			}
		}
		if e.Skipped {
			verdict = "no vote"
		}
		if e.Why != "" {
			verdict += ": " + e.Why
		}
		t.Rows = append(t.Rows, []string{e.Workload, e.Limit.String(), strconv.Itoa(e.Pairs), strconv.Itoa(e.Failed), gain, interval, verdict})
	}
	return t
}

// profileFlags are the flags of candor classify for a CPUProfile.
type profileFlags struct {
	file   string
	labels map[string]string
	images []string
}

func (f *profileFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "profile", "", "file for a CPUProfile, which sets the class of pods in a cluster")
	flags.StringToStringVar(&f.labels, "labels", nil, "pod labels of the profile's selector, such as app=solver")
	flags.StringArrayVar(&f.images, "profile-image", nil, "image pattern of the profile, such as '*/solver:*'; repeatable")
}

// manifest returns the CPUProfile with a class, or nil without --profile.
func (f *profileFlags) manifest(class string) ([]byte, error) {
	if f.file == "" {
		if len(f.labels)+len(f.images) > 0 {
			return nil, badInput("--labels and --profile-image are for --profile FILE")
		}
		return nil, nil
	}
	if len(f.labels)+len(f.images) == 0 {
		return nil, badInput("--profile %s: no pods are selected: add --labels, such as app=solver, or --profile-image", f.file)
	}
	there, err := fileio.Read(f.file, 1<<20)
	switch {
	case err == nil && !profile.IsManifest(there):
		return nil, badInput("--profile %s: the file exists and is not a CPUProfile: use another name", f.file)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, badInput("--profile: %w", err)
	}
	if _, err := os.Stat(filepath.Dir(f.file)); err != nil {
		return nil, badInput("--profile: %w", err)
	}
	text, err := profile.Manifest(strings.TrimSuffix(filepath.Base(f.file), filepath.Ext(f.file)), f.labels, f.images, class)
	if err != nil {
		return nil, badInput("--profile %s: %w", f.file, err)
	}
	return text, nil
}

// write writes the profile. An existing file keeps its owner and mode.
func (f *profileFlags) write(text []byte) error {
	if _, err := os.Stat(f.file); err == nil {
		return rewrite(f.file, text)
	}
	return renameio.WriteFile(f.file, text, 0o644)
}

// texts returns the manifest of --annotate and the CPUProfile of --profile, with a class. Each of the texts is nil if its flag is
// not set.
func (f *classifyFlags) texts(class string) (manifest, profile []byte, err error) {
	if f.annotate == "" && f.object != "" {
		return nil, nil, badInput("--object is for --annotate FILE")
	}
	if f.annotate != "" {
		if manifest, err = f.annotated(class); err != nil {
			return nil, nil, err
		}
	}
	profile, err = f.profile.manifest(class)
	return manifest, profile, err
}

// writeClass writes the class to the files of --annotate and --profile.
func (f *classifyFlags) writeClass(class string) error {
	manifest, profile, err := f.texts(class)
	if err == nil && manifest != nil {
		err = rewrite(f.annotate, manifest)
	}
	if err == nil && profile != nil {
		err = f.profile.write(profile)
	}
	return err
}

// rewrite replaces the content of a file. The owner and the mode of the file do not change. It follows a symbolic link.
func rewrite(name string, text []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	var before unix.Stat_t
	if err := unix.Stat(name, &before); err != nil {
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	next, err := renameio.NewPendingFile(name, renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer next.Cleanup()
	if err := next.Chown(int(before.Uid), int(before.Gid)); err != nil {
		return err
	}
	if _, err := next.Write(text); err != nil {
		return err
	}
	return next.CloseAtomicallyReplace()
}

// annotated returns the manifest of --annotate, with the class as an annotation.
func (f *classifyFlags) annotated(class string) ([]byte, error) {
	text, err := fileio.Read(f.annotate, 16<<20)
	if err != nil {
		return nil, badInput("--annotate: %w", err)
	}
	text, err = kube.Annotate(text, f.object, kube.PodKey("class"), class)
	switch {
	case errors.Is(err, kube.ErrSeveral):
		return nil, badInput("--annotate %s: %w: add --object KIND/NAME", f.annotate, err)
	case err != nil:
		return nil, badInput("--annotate %s: %w", f.annotate, err)
	}
	return text, nil
}
