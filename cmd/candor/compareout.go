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
	var err error
	switch f.output.value {
	case "json":
		err = r.Write(out)
	case "markdown":
		err = report.Markdown(out)
	default:
		err = report.Text(out)
	}
	if f.out == "" {
		return err
	}
	return oneline.Join(err, wholefile.WriteFolder(f.out, report.Files()))
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
