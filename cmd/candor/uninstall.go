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

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/cmd/candor/internal/texttable"
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
		s, done, err := machine.openSetup(cmd, *dry)
		if err != nil {
			return err
		}
		defer done()
		u := &uninstall{machine: s, service: &setup.Service{Unit: setup.ServiceUnit}, stateDir: machine.options.StateDir}
		u.report.Changes, u.report.DryRun = []uninstallChange{}, *dry
		err = u.run(cmd.Context(), *dry)
		if err != nil && len(u.report.Changes) == 0 {
			return uninstallError(err)
		}
		if output.value == "json" {
			return errline.Join(uninstallError(err), writeJSON(cmd.OutOrStdout(), u.report))
		}
		return errline.Join(uninstallError(err), u.report.write(cmd.OutOrStdout()))
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

// An uninstallChange is a value that candor uninstall changes.
type uninstallChange struct {
	What   string `json:"what"`
	Before string `json:"before"` // "": no value
	After  string `json:"after"`
}

// An uninstallReport lists the changes that were made or planned.
type uninstallReport struct {
	Changes []uninstallChange `json:"changes"`
	Notes   []string          `json:"notes,omitempty"`
	DryRun  bool              `json:"dryRun"`
}

// An uninstall is one call of candor uninstall.
type uninstall struct {
	machine  *setup.Setup
	service  *setup.Service
	stateDir string
	report   uninstallReport
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

func (u *uninstall) add(what, before, after string) {
	for _, c := range u.report.Changes {
		if c.What == what && c.After == after { // a second attempt
			return
		}
	}
	u.report.Changes = append(u.report.Changes, uninstallChange{what, before, after})
}

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
		if change.Nothing() {
			continue
		}
		after := ""
		if !change.Gone && len(change.After) > 0 {
			after = "without the runtimes"
		}
		u.add(change.File, "runtimes of candor", after)
		u.report.Notes = append(u.report.Notes, s.Engine.Name+": "+s.Engine.Then)
	}
	return nil
}

// engineSetups returns the setups of all engines, for the files that were set up before or else the usual files.
func engineSetups() ([]*engine.Setup, error) {
	var all []*engine.Setup
	for _, e := range []engine.Engine{engine.Docker, engine.Podman, engine.Containerd} {
		s := &engine.Setup{Engine: e, File: e.File, Record: engineRecord(e)}
		if err := s.UseRecordedFile(); err != nil {
			return nil, err
		}
		if err := findRuntimes(s, true); err != nil {
			return nil, err
		}
		all = append(all, s)
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

// write writes the changes as a table, and the notes below it.
func (r *uninstallReport) write(w io.Writer) error {
	if len(r.Changes) == 0 {
		fmt.Fprintln(w, "Nothing to remove.")
	} else {
		t := texttable.Table{Titles: []string{"WHAT", "BEFORE", "AFTER"}}
		for _, c := range r.Changes {
			t.Rows = append(t.Rows, []string{c.What, orDash(c.Before), orDash(c.After)})
		}
		if err := t.Write(w, 0); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, "Note:", note+".")
	}
	if dir := filepath.Dir(host.DefaultConfig); !r.DryRun {
		fmt.Fprintf(w, "The files in %s and the program files remain.\n", dir)
	}
	return nil
}
