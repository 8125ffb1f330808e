package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/view"
)

const viewLong = `Show the CPU count that each source (the affinity, files in /proc and /sys, the cgroup)
reports to this process, and whether the counts agree with the CPUs that the kernel
allows.

With --cpu or another flag of candor run, the command creates a new container, as
candor run does. If COMMAND is given, the report goes to standard error, and COMMAND
then runs in the same container.

With --check, the exit code is 1 and COMMAND does not run if the report finds a CPU count
that differs from the limit, rounded up to whole CPUs.`

const viewExample = `  candor view
  candor view --cpu 1.5
  candor view --class flexible --cpu 1.5
  candor view --check
  candor view --cpu 1.5 -- java -XshowSettings:system -version
  docker run --rm --cpus 1.5 -v $(which candor):/candor debian /candor view`

func newViewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "view [flags] [-- COMMAND [ARG]...]",
		Short:   "Show the CPU counts that this process finds in /proc, /sys and its affinity",
		Long:    viewLong,
		Example: viewExample,
		Args:    cobra.ArbitraryArgs,
	}
	output := outputFlag(cmd, "table", "wide", "json")
	check := cmd.Flags().Bool("check", false, "exit with code 1 if a reported CPU count is not the limit, rounded up")
	f := addRunFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		inside := false
		cmd.Flags().Visit(func(set *pflag.Flag) { inside = inside || set.Name != "output" && set.Name != "check" })
		if inside {
			return viewInside(f, cmd, output.value, *check, args)
		}
		return viewHere(cmd, output, *check, args)
	}
	return cmd
}

// viewInside runs candor view in a new container, with the flags of candor run.
func viewInside(f *runFlags, cmd *cobra.Command, form string, check bool, args []string) error {
	if !f.Changed("name") {
		if err := f.Set("name", fmt.Sprintf("view-%d", os.Getpid())); err != nil {
			return err
		}
	}
	return f.run(cmd, append([]string{"/proc/self/exe", "view", "-o", form, fmt.Sprintf("--check=%t", check), "--"}, args...))
}

// viewHere reports the CPUs that this process sees, and then executes the command in args, if any. If check is true, a CPU count
// that differs from the limit, rounded up, is an error.
func viewHere(cmd *cobra.Command, output *choice, check bool, args []string) error {
	out, path := cmd.OutOrStdout(), ""
	if len(args) > 0 {
		var err error
		if path, err = launch.FindProgram(args[0]); err != nil {
			return hostError(err)
		}
		out = cmd.ErrOrStderr()
	}
	report := view.ReadSources()
	if err := writeReport(out, report, output); err != nil {
		return err
	}
	if check && !report.IsTrue {
		return &exitError{code: exitFailure} // the report has the reasons
	}
	if len(args) == 0 {
		return nil
	}
	err := syscall.Exec(path, args, os.Environ())
	return hostError(&launch.ExecError{Code: 126, Err: fmt.Errorf("execute %s: %w", path, err)})
}

// writeReport writes a report as a table or as a JSON object.
func writeReport(w io.Writer, r view.Report, output *choice) error {
	if output.value == "json" {
		return writeJSON(w, r)
	}
	var text strings.Builder
	writeSources(&text, tableWidth(w, output), r.Sources)
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(w, verdict(r))
	return err
}

// writeSources writes the table of the sources. width is the width of the terminal; 0: unlimited.
func writeSources(text *strings.Builder, width int, sources []view.Source) {
	t := texttable.Table{Titles: []string{"SOURCE", "COUNT", "CPUS", ""}, Ranks: []int{0, 0, 1, 0}, LastWidth: 15}
	for _, s := range sources {
		t.Rows = append(t.Rows, []string{s.Name, tells(s), s.CPUs.String(), remark(s)})
	}
	_ = t.Write(text, width) // a write to memory cannot fail
}

// tells returns the count that a source reports.
func tells(s view.Source) string {
	switch {
	case s.Error != "":
		return "?"
	case s.QuotaMilli > 0:
		return hybrid.Milli(s.QuotaMilli).String()
	case s.Name == view.SourceQuota:
		return "none"
	}
	return fmt.Sprint(s.Count)
}

// remark returns further facts on a source.
func remark(s view.Source) string {
	switch {
	case s.Error != "":
		return strings.TrimSpace(s.Path + " " + s.Error)
	case s.Masked:
		return "masked by a view"
	case s.Role == view.Machine:
		return "the machine's count, in every container"
	}
	return s.Path
}

// verdict reports whether the CPU counts match the limit, rounded up.
func verdict(r view.Report) string {
	limit, cpus := hybrid.Milli(r.LimitMilli), count(r.CPUs, "CPU", "CPUs")
	if r.IsTrue {
		return fmt.Sprintf("\nThe CPU counts match the limit: yes. For a limit of %s, programs should see %s.\n", limit, cpus)
	}
	return fmt.Sprintf("\nThe CPU counts match the limit: no. For a limit of %s, programs should see %s, but\n  %s\n",
		limit, cpus, strings.Join(r.Reasons, "\n  "))
}
