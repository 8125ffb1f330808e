package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/view"
)

const uninstallLong = `Stop Candor on this machine and give the containers back to their engines. The command
stops and disables candor-nri.service and undoes candor setup. Every container gets the
CPU quota, weight and burst that its engine requested, and the CPUs of the cgroup above.
The files of a view show the CPUs of the machine. Then the command removes the state.

Containers and programs of candor run go on. The program files and /etc/candor remain.
If the command is interrupted or fails for some containers, run it again.`

const uninstallExample = `  # Print the changes without applying them
  candor uninstall --dry-run

  candor uninstall`

func newUninstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "Give all containers back to their engines and remove the state",
		Long:    uninstallLong,
		Example: uninstallExample,
		Args:    noArgs,
	}
	machine := addHostFlags(cmd)
	output := outputFlag(cmd, "table", "json")
	dry := cmd.Flags().Bool("dry-run", false, "print the changes without applying them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := machine.useNodeStateDir(cmd, doctor.DefaultNRIConfig); err != nil {
			return err
		}
		s, done, err := machine.openSetup(cmd, *dry)
		if err != nil {
			return err
		}
		defer done()
		u := &uninstall{machine: s, service: &setup.Service{Unit: setup.ServiceUnit}, stateDir: machine.options.StateDir}
		u.report = changeReport{Changes: []changeRow{}, DryRun: *dry}
		err = u.run(cmd.Context(), *dry)
		if err != nil && len(u.report.Changes) == 0 {
			return uninstallError(err)
		}
		if output.value == "json" {
			return errline.Join(uninstallError(err), writeJSON(cmd.OutOrStdout(), u.report))
		}
		return errline.Join(uninstallError(err), u.write(cmd.OutOrStdout()))
	}
	return cmd
}

// uninstallError returns err with the exit code for bad input if the caller caused the error.
func uninstallError(err error) error {
	if isOneOf(err, host.ErrAgentRuns, engine.ErrBadFile) {
		return &exitError{exitBadInput, err}
	}
	return hostError(err)
}

// An uninstall is one call of candor uninstall.
type uninstall struct {
	machine  *setup.Setup
	service  *setup.Service
	stateDir string
	report   changeReport
}

// run stops the service first, because it would adopt the containers again. The setups follow, so that no new container
// starts with Candor. The state is last: it names the containers for another call.
func (u *uninstall) run(ctx context.Context, dry bool) error {
	if err := u.stopService(dry); err != nil {
		return err
	}
	if err := u.undoEngines(dry); err != nil {
		return err
	}
	if err := u.undoHost(dry); err != nil {
		return err
	}
	_, err := os.Stat(u.stateDir)
	hasState := err == nil && u.machine.Host.IsInUse()
	if err := u.giveBack(ctx, dry); err != nil {
		return err
	}
	if hasState {
		u.add("state "+u.stateDir, "present", "")
	}
	return nil
}

func (u *uninstall) add(what, before, after string) { u.report.add(what, before, after) }

// stopService stops candor nri. An agent outside of this service is an error, before the first change.
func (u *uninstall) stopService(dry bool) error {
	state, err := u.service.State()
	if err != nil {
		return err
	}
	if state.IsOff() || state.Active != "active" {
		if err := u.machine.Host.CheckNoAgent(); err != nil {
			return err
		}
	}
	if state.IsOff() {
		return nil
	}
	if !dry {
		if err := u.service.Off(); err != nil {
			return err
		}
		if err := u.machine.Host.CheckNoAgent(); err != nil {
			return err
		}
	}
	u.add(u.service.Unit, state.String(), "inactive, disabled")
	return nil
}

func (u *uninstall) undoEngines(dry bool) error {
	setups, err := engineSetups()
	if err != nil {
		return err
	}
	for _, s := range setups {
		change, err := s.Undo(dry)
		if err != nil {
			return err
		}
		if !change.Nothing() {
			u.add("setup "+s.Engine.Name+" "+change.File, stateDone, "undone")
			u.report.Notes = append(u.report.Notes, s.Engine.Name+": "+s.Engine.Then)
		}
	}
	return nil
}

// engineSetups returns the setups of all engines, for the files that were set up before or else the usual files.
func engineSetups() ([]*engine.Setup, error) {
	all := plainEngineSetups()
	for _, s := range all {
		if err := s.UseRecordedFile(); err != nil {
			return nil, err
		}
		if err := findRuntimes(s, true); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (u *uninstall) undoHost(dry bool) error {
	_, _, isDone, err := u.machine.Recorded()
	if err != nil || !isDone {
		return err
	}
	result, err := u.machine.Undo(dry)
	for _, c := range result.Changes {
		u.add(fmt.Sprintf("%s %s", c.At, c.Kind), c.Before, c.After)
	}
	u.report.Notes = append(u.report.Notes, result.Notes...)
	return err
}

// The kernel breaks the lease on a file after 45 s (lease-break-time), and a view has two files.
const (
	leasePause    = time.Second
	leasePatience = 100 * time.Second
)

// giveBack gives all containers back. It waits for containers that are being started and for leases on views.
func (u *uninstall) giveBack(ctx context.Context, dry bool) error {
	for end := time.Now().Add(leasePatience); ; {
		changes, err := u.machine.Host.GiveBack(ctx, dry)
		for _, c := range changes {
			u.add(c.Container+" "+string(c.Setting), c.Before, c.After)
		}
		if dry && errors.Is(err, host.ErrStarting) {
			return nil
		}
		if !isOneOf(err, view.ErrLeased, host.ErrStarting) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(leasePause):
		case <-ctx.Done():
			return err
		}
	}
}

// write writes the changes as a table, and the remaining files below it.
func (u *uninstall) write(w io.Writer) error {
	if err := u.report.write(w, "Nothing to remove."); err != nil || u.report.DryRun {
		return err
	}
	_, err := fmt.Fprintf(w, "The files in %s and the program files remain.\n", filepath.Dir(host.DefaultConfig))
	return err
}
