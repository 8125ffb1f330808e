package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/host"
)

const setupEngineLong = `Add Candor's OCI runtimes to %[1]s: candor, whose containers are sensitive if they
have a limit, and candor-flexible. The command adds them to %[2]s and keeps
the rest of the file. It does not write a file that is invalid.

The command prints the difference. --undo removes the runtimes.`

// newSetupEngineCommands are the setups of the container engines.
func newSetupEngineCommands() []*cobra.Command {
	return []*cobra.Command{
		newSetupEngineCommand(engine.Docker),
		newSetupEngineCommand(engine.Podman),
		newSetupEngineCommand(engine.Containerd),
	}
}

func newSetupEngineCommand(e engine.Engine) *cobra.Command {
	cmd := &cobra.Command{
		Use:     e.Name,
		Short:   "Add Candor's OCI runtimes to " + e.Name,
		Long:    fmt.Sprintf(setupEngineLong, e.Name, e.File),
		Example: fmt.Sprintf("  candor setup %s --dry-run\n  candor setup %[1]s\n  candor setup %[1]s --undo", e.Name),
		Args:    noArgs,
	}
	s := &engine.Setup{Engine: e}
	flags := cmd.Flags()
	flags.StringVar(&s.File, "file", e.File, "configuration file of the engine")
	flags.BoolVar(&s.Default, "default", false, "make candor the default runtime of the engine")
	undo := flags.Bool("undo", false, "remove the runtimes from the configuration")
	dry := flags.Bool("dry-run", false, "print the changes without applying them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *undo && s.Default {
			return badInput("--undo puts back what was there: it takes no --default")
		}
		if err := findRuntimes(s, *undo); err != nil {
			return err
		}
		var err error
		if s.File, err = filepath.Abs(s.File); err != nil { // it is recorded, and the next command may run elsewhere
			return err
		}
		s.Record = filepath.Join(filepath.Dir(cmp.Or(os.Getenv("CANDOR_CONFIG"), host.DefaultConfig)), "setup-"+e.Name+".json")
		do := s.Apply
		if *undo {
			do = s.Undo
		}
		change, err := do(*dry)
		if errors.Is(err, engine.ErrBadFile) {
			return &exitError{exitBadInput, err}
		}
		if err != nil {
			return err
		}
		return writeEngineChange(cmd.OutOrStdout(), change, e, *dry)
	}
	return cmd
}

// findRuntimes finds candor under the names by which it is a runtime. For an undo they need not be there.
func findRuntimes(s *engine.Setup, undo bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, r := range []engine.Runtime{{Name: "candor", Path: "candor-runc"}, {Name: "candor-flexible", Path: "candor-flexible-runc"}} {
		r.Path = filepath.Join(filepath.Dir(self), r.Path)
		if _, err := os.Stat(r.Path); err != nil && !undo {
			return badInput("%s is not there: want a link to candor of that name (ln -s %s %[1]s)", r.Path, filepath.Base(self))
		}
		s.Runtimes = append(s.Runtimes, r)
	}
	return nil
}

// writeEngineChange shows the change and the next step.
func writeEngineChange(w io.Writer, c engine.Change, e engine.Engine, dry bool) error {
	if c.Nothing() {
		_, err := fmt.Fprintf(w, "%s: nothing to change.\n", c.File)
		return err
	}
	text := c.Diff()
	if c.Gone {
		text += "The file is removed.\n"
	}
	if !dry {
		text += "Now: " + e.Then + ".\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
