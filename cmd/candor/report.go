package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/expreport"
	"github.com/candor-project/candor/experiment"
)

const reportLong = `Show a report that candor compare or candor isolate wrote as JSON. The command prints
tables, or with --out writes pictures and pages. It measures nothing.

From several reports of candor compare, the command makes a single table and picture.
Both have a row per program, with the gain of each setup over the baseline. The baseline
must be the same in all reports. A report of candor isolate must be the only FILE.`

func newReportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Show saved experiment reports",
		Long:  reportLong,
		Example: `  candor compare --cpu 1.5 -o json -- ./bench >runs.json
  candor report runs.json --out figures
  candor report xz.json nginx.json stream.json -o markdown`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return missing("FILE", "one report or more, as candor compare -o json writes it")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.show(cmd.OutOrStdout(), args) },
	}
	f.add(cmd)
	return cmd
}

// show shows the reports in files.
func (f *reportFlags) show(out io.Writer, files []string) error {
	r, err := readReports(files)
	if err != nil {
		return experimentError(err)
	}
	if err := f.prepare(); err != nil {
		return err
	}
	return f.write(out, r)
}

// readReports reads an isolation report, or the reports of programs.
func readReports(files []string) (shown, error) {
	if len(files) == 1 {
		if r, is, err := experiment.ReadIsolation(files[0]); is {
			return expreport.Isolation{IsolationReport: r}, err
		}
	}
	var reports []*experiment.Report
	for _, file := range files {
		r, err := experiment.ReadReport(file)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	if len(reports) == 1 {
		return expreport.Report{Report: reports[0]}, nil
	}
	together, err := experiment.Together(reports)
	return expreport.Programs{Programs: together}, err
}
