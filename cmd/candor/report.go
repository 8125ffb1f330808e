package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/expreport"
	"github.com/candor-project/candor/internal/wholefile"
)

// reportFlags say how results are shown.
type reportFlags struct {
	out    string
	output choice
}

func (f *reportFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.out, "out", "", "folder for the report, with box plots (SVG, PNG), as Markdown, a page and JSON")
	f.output = choice{"table", []string{"table", "json", "markdown"}}
	wordFlag(cmd, &f.output, f.output.of, "output", "o", "form of the results")
	must(cmd.MarkFlagDirname("out"))
}

// prepare makes the folder, so that nothing is found to be wrong after the long work.
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

// keep writes what is done so far, should this process not come to its end. Whether that can be done shows at the end.
func (f *reportFlags) keep(r *experiment.Report) {
	if f.out != "" {
		_ = wholefile.WriteFolder(f.out, []wholefile.File{{Name: "report.json", Write: r.Write}})
	}
}

const reportLong = `Show a report that candor compare wrote as JSON: its tables anew, or with --out its
pictures and pages. Several reports are shown in one table and one picture, a program a
row: how many times better each set-up is than the first one, which must be the same in all of
them. A report of candor isolate is shown on its own. Nothing is run.`

func newReportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Show runs that were measured before",
		Long:  reportLong,
		Example: `  candor compare --cpu 1.5 -o json -- ./bench >runs.json
  candor report runs.json --out figures
  candor report xz.json nginx.json stream.json -o markdown`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return badInput("want reports: candor report FILE...")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.show(cmd.OutOrStdout(), args) },
	}
	f.add(cmd)
	return cmd
}

// show shows reports that are there.
func (f *reportFlags) show(out io.Writer, files []string) error {
	if len(files) == 1 {
		if r, is, err := experiment.ReadIsolation(files[0]); is && err != nil {
			return experimentError(err)
		} else if is {
			if err := f.prepare(); err != nil {
				return err
			}
			return f.writeIsolation(out, r)
		}
	}
	var reports []*experiment.Report
	for _, file := range files {
		r, err := experiment.ReadReport(file)
		if err != nil {
			return experimentError(err)
		}
		reports = append(reports, r)
	}
	if len(reports) == 1 {
		if err := f.prepare(); err != nil {
			return err
		}
		return f.write(out, reports[0])
	}
	together, err := experiment.Together(reports)
	if err != nil {
		return experimentError(err)
	}
	if err := f.prepare(); err != nil {
		return err
	}
	return f.writeTogether(out, expreport.Programs{Programs: together})
}
