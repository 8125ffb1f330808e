package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/errline"
)

const setupHostLong = `Confine processes outside of Candor (services, sessions, other engines and their
containers) to the reserved CPUs. Candor gives these CPUs to no container. Without this
command, the processes outside of Candor also run on the exclusive CPUs of containers.
candor map and inspect show this use.

With systemd, the command sets AllowedCPUs= of the top-level units. On other cgroup v2
machines, it makes Candor's cgroup a partition. On cgroup v1, it removes all CPUs except
the reserved CPUs from the cpusets of the other cgroups. The confinement lasts until the
next boot. The list of reserved CPUs remains.`

const setupHostExample = `  # Print the changes without applying them
  candor setup host --reserved 0-1 --dry-run

  candor setup host --reserved 0-1
  candor setup host --disable-leases
  candor setup host --undo`

func newSetupHostCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "host",
		Short:   "Confine processes outside of Candor to CPUs of their own",
		Long:    setupHostLong,
		Example: setupHostExample,
		Args:    noArgs,
	}
	machine := addHostFlags(cmd)
	output := outputFlag(cmd, "table", "json")
	reserved := cmd.Flags().String("reserved", "", "CPUs for other programs, such as 0-1 (default: the stored list of this machine)")
	leases := cmd.Flags().Bool("disable-leases", false, "forbid file leases (fcntl), which can delay updates of the files with CPU counts")
	undo := cmd.Flags().Bool("undo", false, "restore the values from before the first setup")
	dry := cmd.Flags().Bool("dry-run", false, "print the changes without applying them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		keep, err := cpuset.Parse(*reserved)
		if err != nil {
			return badInput("--reserved: %v", err)
		}
		if *undo && (cmd.Flags().Changed("reserved") || *leases) {
			return badInput("--undo restores the recorded values: it takes no --reserved and no --disable-leases")
		}
		s, done, err := machine.openSetup(cmd, *dry)
		if err != nil {
			return err
		}
		defer done()
		s.DisableLeases = *leases
		result, err := doSetup(s, keep, *undo, *dry)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(cmd.OutOrStdout(), result)
		}
		return writeSetup(cmd.OutOrStdout(), result)
	}
	return cmd
}

// openSetup opens the machine and its groups, read-only for a dry run.
func (f *hostFlags) openSetup(cmd *cobra.Command, dry bool) (s *setup.Setup, done func(), err error) {
	open := f.open
	if dry {
		open = f.openToLook
	}
	h, err := open(cmd)
	if err != nil {
		return nil, nil, err
	}
	tree, err := cgroup.Open(f.options.Cgroup)
	if err != nil {
		return nil, nil, errline.Join(hostError(err), h.Close())
	}
	return &setup.Setup{Host: h, Tree: tree, Config: f.options.Config}, func() { closeBoth(h, tree) }, nil
}

func closeBoth(h *host.Host, tree *cgroup.Tree) {
	h.Close()
	tree.Close()
}

func doSetup(s *setup.Setup, keep cpuset.Set, undo, dry bool) (result setup.Result, err error) {
	switch {
	case undo:
		result, err = s.Undo(dry)
	case dry:
		result, err = s.Plan(keep)
	default:
		result, err = s.Apply(keep)
	}
	if errors.Is(err, setup.ErrBadCPUs) || errors.Is(err, setup.ErrInUse) {
		return result, &exitError{exitBadInput, err}
	}
	return result, hostError(err)
}

// writeSetup writes the changes as a table, and the notes below it.
func writeSetup(w io.Writer, r setup.Result) error {
	verb := "changed"
	if r.DryRun {
		verb = "would change"
	}
	if len(r.Changes) == 0 {
		fmt.Fprintln(w, "Nothing "+verb+".")
	} else {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "WHERE\tWHAT\tBEFORE\tAFTER")
		for _, c := range r.Changes {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.At, c.Kind, orDash(c.Before), orDash(c.After))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, "Note:", note+".")
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

const setupEngineLong = `Add Candor's OCI runtimes to %[1]s. Under the runtime candor, a container that has a
limit gets CPUs of its own (class sensitive). Under the runtime candor-flexible,
containers share CPUs. The command adds the runtimes to %[2]s
and keeps the rest of the file. If the file is invalid, the command does not change it.

The command prints the change as a diff. --undo removes the runtimes.`

// newSetupEngineCommands returns the setup command of each container engine.
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
			return badInput("--undo restores the former content: it takes no --default")
		}
		if err := findRuntimes(s, *undo); err != nil {
			return err
		}
		var err error
		if s.File, err = filepath.Abs(s.File); err != nil { // the path is recorded, and the next command may run in another directory
			return err
		}
		s.Record = engineRecord(e)
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
		then := e.Then
		if *undo {
			then = e.ThenUndo
		}
		if err := writeEngineChange(cmd.OutOrStdout(), change, then, *dry); err != nil || *undo || *dry || e.Name == engine.Containerd.Name {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", strings.Join(refreshHint, "\n  "))
		return err
	}
	return cmd
}

// engineRecord returns the file with the former configuration of an engine.
func engineRecord(e engine.Engine) string {
	return filepath.Join(filepath.Dir(cmp.Or(os.Getenv("CANDOR_CONFIG"), host.DefaultConfig)), "setup-"+e.Name+".json")
}

// findRuntimes sets s.Runtimes to the OCI runtimes candor and candor-flexible. Their programs are links to candor, in the
// directory of candor. For an undo, the links can be missing.
func findRuntimes(s *engine.Setup, undo bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.Runtimes = nil
	for _, r := range []engine.Runtime{{Name: "candor", Path: "candor-runc"}, {Name: "candor-flexible", Path: "candor-flexible-runc"}} {
		r.Path = filepath.Join(filepath.Dir(self), r.Path)
		if _, err := os.Stat(r.Path); err != nil && !undo {
			return badInput("%s is missing: create it as a link to candor (ln -s %s %[1]s)", r.Path, filepath.Base(self))
		}
		s.Runtimes = append(s.Runtimes, r)
	}
	return nil
}

// writeEngineChange shows the change and the next step.
func writeEngineChange(w io.Writer, c engine.Change, then string, dry bool) error {
	if c.Nothing() {
		_, err := fmt.Fprintf(w, "%s: nothing to change.\n", c.File)
		return err
	}
	text := c.Diff()
	if c.Gone {
		text += "The file is removed.\n"
	}
	if !dry {
		text += "Now: " + then + ".\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
