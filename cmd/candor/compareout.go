package main

import (
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/expreport"
	"github.com/candor-project/candor/internal/oneline"
	"github.com/candor-project/candor/internal/wholefile"
)

// write writes a report to the terminal and the folder.
func (f *reportFlags) write(out io.Writer, r *experiment.Report) error {
	report := expreport.Report{Report: r}
	err := f.writeForm(out, r.Write, report.Markdown, report.Text)
	if f.out == "" {
		return err
	}
	return oneline.Join(err, wholefile.WriteFolder(f.out, report.Files()))
}

// writeTogether writes several programs' reports so.
func (f *reportFlags) writeTogether(out io.Writer, p expreport.Programs) error {
	err := f.writeForm(out, p.JSON, p.Markdown, p.Text)
	if f.out == "" {
		return err
	}
	return oneline.Join(err, wholefile.WriteFolder(f.out, p.Files()))
}

// writeForm writes the form that is asked for.
func (f *reportFlags) writeForm(out io.Writer, json, markdown, text func(io.Writer) error) error {
	switch f.output.value {
	case "json":
		return json(out)
	case "markdown":
		return markdown(out)
	default:
		return text(out)
	}
}

// A latest is a value that one goroutine sets and another looks at.
type latest[T any] struct {
	mutex sync.Mutex
	value T
}

func (l *latest[T]) set(v T) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.value = v
}

func (l *latest[T]) get() T {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.value
}

// newInternalGuardCommand is the process that clears the groups of an experiment whose candor was killed.
func newInternalGuardCommand() *cobra.Command {
	return &cobra.Command{
		Use:                experiment.GuardCommand,
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return experiment.RunGuard(args[0], args[1], cmd.InOrStdin())
		},
	}
}
