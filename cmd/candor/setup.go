package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/errline"
)

const setupHostLong = `Confine foreign processes (services, sessions, engines without Candor) to the
reserved CPUs, which no container gets. Otherwise they also run on the exclusive CPUs
of containers, as candor map and inspect show.

With systemd, the top-level units get AllowedCPUs=. On other cgroup v2 machines,
Candor's cgroup becomes a partition. On cgroup v1, the other cgroups shrink. The
confinement lasts until the next boot; the list of reserved CPUs remains.`

const setupHostExample = `  # Print the changes without applying them
  candor setup host --reserved 0-1 --dry-run

  candor setup host --reserved 0-1
  candor setup host --disable-leases
  candor setup host --undo`

func newSetupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Configure this machine and its container engines",
	}
	cmd.AddCommand(newSetupHostCommand())
	cmd.AddCommand(newSetupEngineCommands()...)
	return cmd
}

func newSetupHostCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "host",
		Short:   "Confine foreign processes to CPUs of their own",
		Long:    setupHostLong,
		Example: setupHostExample,
		Args:    noArgs,
	}
	machine := addHostFlags(cmd)
	output := outputFlag(cmd, "table", "json")
	reserved := cmd.Flags().String("reserved", "", "CPUs of foreign processes, such as 0-1 (default: reserved CPUs)")
	leases := cmd.Flags().Bool("disable-leases", false, "forbid file leases, which can delay the update of a view")
	undo := cmd.Flags().Bool("undo", false, "restore the configuration from before the setup")
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

// openSetup opens the machine and its groups.
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

// writeSetup writes the changes as a table with their meaning below it.
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
