package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/kernelfs"
)

const uninstallLong = `Stop Candor on this machine and give the containers back to their engines. The command
stops and disables candor-nri.service and candor-view.service, and undoes candor setup.
Every container gets the CPU quota, weight and burst that its engine requested, and the
CPUs of its parent cgroup. The files of a view then show the CPUs and the memory of the
machine. At the end, the command removes the state.

Containers, and programs that candor run started, continue to run. The program files and
/etc/candor remain.
If the command is interrupted or fails for some containers, run it again. Until then,
Candor neither starts nor changes containers.

If --state-dir or $CANDOR_STATE_DIR names a state directory that candor-nri.service does
not use, the command only gives back the containers of this state and removes this state.`

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
		u := &uninstall{
			machine: s, service: &setup.Service{Unit: setup.ServiceUnit}, refresh: &setup.Service{Unit: setup.ViewUnit}, engines: plainEngineSetups, root: "/",
			stateDir: machine.options.StateDir, isService: isServiceState(machine.options.StateDir, doctor.DefaultNRIConfig),
		}
		err = u.run(cmd.Context(), *dry)
		if *dry || len(u.report.Changes) == 0 { // nothing was changed
			err = uninstallError(err)
		}
		if err != nil && len(u.report.Changes) == 0 {
			return err
		}
		if output.value == "json" {
			return errline.Join(err, writeJSON(cmd.OutOrStdout(), u.report))
		}
		return errline.Join(err, u.write(cmd.OutOrStdout()))
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
	machine   *setup.Setup
	service   *setup.Service
	refresh   *setup.Service // of candor view refresh
	engines   func() []*engine.Setup
	root      string // root directory in which the command looks for container runtimes
	stateDir  string
	isService bool // the state belongs to the service; otherwise the service and the setups do not change
	report    changeReport
}

// run first makes a dry run of the steps that precede the give-back of the containers: if a file cannot be restored, run changes nothing.
// Then it stops the service, because the service would adopt the containers again. The setups follow, so that no new container starts with
// Candor. From the first change on, an error of a step does not prevent the give-back of the containers.
func (u *uninstall) run(ctx context.Context, dry bool) error {
	u.report = changeReport{Changes: []changeRow{}, DryRun: dry}
	_, err := os.Stat(u.stateDir)
	hasState := err == nil && u.machine.Host.IsInUse()
	u.warn()
	err = errline.Join(u.checkAgent(), u.stopService(true), u.undoSetups(true))
	if !dry {
		u.report.Changes = []changeRow{}
		if err != nil {
			return err
		}
		if err := u.stopService(false); err != nil {
			return err
		}
	}
	b, failed := u.machine.Host.StartGiveBack(dry)
	if failed != nil {
		return errline.Join(err, failed)
	}
	defer b.Close()
	if !dry {
		err = u.undoSetups(false)
	}
	failed = u.giveBack(ctx, b, dry)
	if hasState && (dry || failed == nil) {
		u.report.add("state "+u.stateDir, "present", "")
	}
	return errline.Join(err, failed)
}

// maxRecreated bounds the names in the note about containers of candor-runc.
const maxRecreated = 100

// warn adds notes about the effects that the command cannot prevent.
func (u *uninstall) warn() {
	if !u.isService {
		u.report.addNote(u.stateDir + " is not the state directory of " + u.service.Unit + ": the service and the setups do not change")
		return
	}
	runtimes, _ := nri.ReadRuntimes(u.root) // candor doctor reports runtimes that cannot be read
	for i := range runtimes {
		if isRequired, file := runtimes[i].RequiresPlugin(); isRequired {
			u.report.addNote("containerd refuses new pods without candor nri: remove candor from required_plugins in " + file +
				", then systemctl restart containerd")
		}
	}
	ids, err := u.machine.Host.RunningBundles()
	if err != nil {
		u.report.addNote("the containers of candor-runc are not known: " + errorLine(err))
	}
	if len(ids) == 0 {
		return
	}
	s, err := u.machine.Host.Snapshot()
	if err != nil { // a state that cannot be read: the IDs are sufficient
		s = new(host.Snapshot)
	}
	u.report.addNote("containers of candor-runc cannot start again without this runtime: recreate them with another runtime: " +
		shownNames(s, ids, maxRecreated))
}

// checkAgent returns host.ErrAgentRuns if an agent outside of the service uses the state, such as in a pod.
func (u *uninstall) checkAgent() error {
	if u.isService {
		if state, err := u.service.State(); err != nil || state.IsRunning() {
			return err
		}
	}
	return u.machine.Host.CheckNoAgent()
}

func (u *uninstall) stopService(dry bool) error {
	if !u.isService {
		return nil
	}
	return errline.Join(u.report.stopService(u.service, dry), u.report.stopService(u.refresh, dry))
}

// undoSetups undoes all setups. After an error, it continues with the next setup.
func (u *uninstall) undoSetups(dry bool) error {
	if !u.isService {
		return nil
	}
	var errs []error
	for _, s := range u.engines() {
		errs = append(errs, u.report.undoEngine(s, dry))
	}
	return errline.Join(append(errs, u.undoHost(dry))...)
}

func (u *uninstall) undoHost(dry bool) error {
	_, _, isDone, err := u.machine.Recorded()
	if err != nil || !isDone {
		return err
	}
	result, err := u.machine.Undo(dry)
	for _, c := range result.Changes {
		u.report.add(fmt.Sprintf("%s %s", c.At, c.Kind), c.Before, c.After)
	}
	for _, note := range result.Notes {
		u.report.addNote(note)
	}
	return err
}

// giveBackRetry is the time between two attempts to give all containers back.
const giveBackRetry = time.Second

// giveBack gives all containers back. It waits for containers that are being started, and for leases on views and quotas.
func (u *uninstall) giveBack(ctx context.Context, b *host.GiveBack, dry bool) error {
	for end := time.Now().Add(giveBackPatience(leaseBreakTime)); ; {
		result, err := b.Try(ctx)
		for _, c := range result.Changes {
			u.report.add(c.Container+" "+string(c.Setting), c.Before, c.After)
		}
		if dry {
			if result.Waiting != nil {
				u.report.addNote("not complete: " + errorLine(result.Waiting))
			}
			return err
		}
		if err = errline.Join(err, result.Waiting); result.Waiting == nil || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(giveBackRetry):
		case <-ctx.Done():
			return err
		}
	}
}

// leaseBreakTime is the file with the seconds after which the kernel breaks a lease that its owner does not end.
const leaseBreakTime = "/proc/sys/fs/lease-break-time"

// giveBackPatience returns how long the command waits for containers. The kernel breaks the leases on the files of a view at the same time;
// a process can take a lease on the files again before the command waits for all of them. The minimum is the longest wait for a start or for the lease of a quota. The maximum bounds the removal of a package.
func giveBackPatience(file string) time.Duration {
	const least, most = 80 * time.Second, 10 * time.Minute
	text, err := kernelfs.Read(file)
	if err != nil {
		return least
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return least
	}
	return min(max(2*time.Duration(seconds)*time.Second+10*time.Second, least), most)
}

// write writes the changes as a table, and the remaining files below it.
func (u *uninstall) write(w io.Writer) error {
	if err := u.report.write(w, "Nothing to remove."); err != nil || u.report.DryRun || !u.isService {
		return err
	}
	_, err := fmt.Fprintf(w, "The files in %s and the program files remain.\n", filepath.Dir(host.DefaultConfig))
	return err
}
