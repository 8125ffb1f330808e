package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/fileio"
)

// reportFlags select the output of a report.
type reportFlags struct {
	out    string
	output choice
}

func (f *reportFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.out, "out", "", "directory for the report: box plots, Markdown, HTML and JSON")
	f.output = choice{"table", []string{"table", "json", "markdown"}}
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

// keep saves the partial report, in case the process is killed. The final write reports errors.
func (f *reportFlags) keep(r interface{ Write(io.Writer) error }) {
	if f.out != "" {
		_ = fileio.WriteFolder(f.out, []fileio.File{{Name: "report.json", Write: r.Write}})
	}
}

// A shown is a report in its forms.
type shown interface {
	Write(out io.Writer) error // as JSON
	Markdown(out io.Writer) error
	Text(out io.Writer) error
	Files() []fileio.File // for the folder
}

// finish shows the completed runs, also after an interrupt. err is the error of the experiment.
func (f *reportFlags) finish(out io.Writer, r shown, runs int, err error) error {
	if runs == 0 {
		return experimentError(err)
	}
	if writeErr := f.write(out, r); writeErr != nil {
		return writeErr
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("stopped: %s done", count(runs, "run", "runs"))
	}
	return experimentError(err)
}

// write writes a report to the terminal and the folder.
func (f *reportFlags) write(out io.Writer, r shown) (err error) {
	switch f.output.value {
	case "json":
		err = r.Write(out)
	case "markdown":
		err = r.Markdown(out)
	default:
		err = r.Text(out)
	}
	if f.out == "" {
		return err
	}
	return errline.Join(err, fileio.WriteFolder(f.out, r.Files()))
}
