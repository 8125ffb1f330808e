package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/view"
)

const viewLong = `Show what this place is told of its CPUs by each source that programs ask, what
the kernel gives it, and if the two agree: what it sees is what it has.

With a command, the report goes to standard error, and the command runs after it
in the same place.`

const viewExample = `  candor view
  candor view -- nproc
  docker run --rm --cpus 1.5 -v $(which candor):/candor debian /candor view`

func newViewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "view [-- COMMAND [ARG]...]",
		Short:   "Show what this place is told of its CPUs, source by source",
		Long:    viewLong,
		Example: viewExample,
		Args:    cobra.ArbitraryArgs,
	}
	output := outputFlag(cmd, "table", "json")
	cmd.Flags().SetInterspersed(false) // what follows the command's name is the command's
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		if len(args) > 0 {
			out = cmd.ErrOrStderr()
		}
		if err := writeReport(out, view.Observe(), output.value); err != nil {
			return err
		}
		if len(args) == 0 {
			return nil
		}
		return replaceBy(args)
	}
	return cmd
}

// writeReport writes a report as a table or as one JSON object.
func writeReport(w io.Writer, r view.Report, form string) error {
	if form == "json" {
		return json.NewEncoder(w).Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SOURCE\tTELLS\tCPUS\t")
	for _, s := range r.Sources {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Name, tells(s), s.CPUs, remark(s))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, verdict(r))
	return err
}

// tells is the number that a source tells.
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

// remark says what else is to be known of a source.
func remark(s view.Source) string {
	switch {
	case s.Error != "":
		return strings.TrimSpace(s.Path + " " + s.Error)
	case s.Masked:
		return "masked by a view"
	case s.Role == view.Machine:
		return "the machine's, in every container"
	}
	return s.Path
}

// verdict says in words if a place sees what it has.
func verdict(r view.Report) string {
	limit, cpus := hybrid.Milli(r.LimitMilli), "1 CPU"
	if r.CPUs != 1 {
		cpus = fmt.Sprintf("%d CPUs", r.CPUs)
	}
	if r.Honest {
		return fmt.Sprintf("\nWhat it sees is what it has: yes. The limit is %s, and it sees %s.\n", limit, cpus)
	}
	return fmt.Sprintf("\nWhat it sees is what it has: no. The limit is %s, a view of %s, but\n  %s\n",
		limit, cpus, strings.Join(r.Reasons, "\n  "))
}

// replaceBy replaces this process by a command. It returns only if that can't be,
// with the exit code that a shell has then.
func replaceBy(args []string) error {
	path, err := exec.LookPath(args[0])
	if err == nil {
		err = syscall.Exec(path, args, os.Environ())
	}
	code := 126
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		code = 127
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return &exitError{code, fmt.Errorf("%s: %w", args[0], err)}
}
