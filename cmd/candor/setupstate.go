package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/internal/program"
	"github.com/candor-project/candor/internal/texttable"
)

const setupLong = `Configure this machine and its container engines. Without a subcommand, the command
lists all setups and their state, and changes nothing. candor setup node runs the setups
that this machine needs.`

const setupExample = `  # List the setups of this machine and their state
  candor setup

  candor setup node --dry-run
  candor setup host --reserved 0-1`

func newSetupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "setup",
		Short:   "Configure this machine and its container engines",
		Long:    setupLong,
		Example: setupExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
	}
	output := outputFlag(cmd, "table", "wide", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		rows := setupRows("/", &setup.Service{Unit: setup.ServiceUnit})
		if output.value == "json" {
			return writeJSON(cmd.OutOrStdout(), rows)
		}
		return setupTable(rows).Write(cmd.OutOrStdout(), tableWidth(cmd.OutOrStdout(), output))
	}
	cmd.AddCommand(newSetupHostCommand(), newSetupNodeCommand())
	cmd.AddCommand(newSetupEngineCommands()...)
	return cmd
}

func setupTable(rows []setupRow) *texttable.Table {
	t := &texttable.Table{Titles: []string{"SETUP", "STATE", "DETAILS"}, LastWidth: 20}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{r.Setup, r.State, orDash(r.Details)})
	}
	return t
}

// States of a setup.
const (
	stateDone         = "done"
	stateNotDone      = "not done"
	stateNotInstalled = "not installed"
	stateNotNeeded    = "not needed"
	stateUnknown      = "unknown"
)

// A setupRow is the state of a setup of this machine.
type setupRow struct {
	Setup   string `json:"setup"` // host, an engine, nri or service
	State   string `json:"state"`
	Details string `json:"details,omitempty"`
}

// setupRows reads the state of all setups. root is the root directory in which it looks for container runtimes.
func setupRows(root string, service *setup.Service) []setupRow {
	rows := []setupRow{hostSetupRow()}
	for _, s := range plainEngineSetups() {
		rows = append(rows, engineSetupRow(s, root))
	}
	return append(rows, serviceRow(service))
}

func hostSetupRow() setupRow {
	options, _ := defaultHostOptions()
	reserved, changes, isDone, err := (&setup.Setup{Config: options.Config}).Recorded()
	switch {
	case err != nil:
		return setupRow{"host", stateUnknown, errorLine(err)}
	case !isDone:
		return setupRow{"host", stateNotDone, "foreign processes run on all CPUs"}
	case changes == 0:
		return setupRow{"host", stateNotDone, fmt.Sprintf("reserved %s; a reboot has ended the confinement", noneIfEmpty(reserved))}
	}
	return setupRow{"host", stateDone, fmt.Sprintf("reserved %s, %s", noneIfEmpty(reserved), count(changes, "confinement", "confinements"))}
}

// plainEngineSetups returns the setups of all engines and of NRI. Their fields Runtimes are empty.
func plainEngineSetups() (all []*engine.Setup) {
	for _, e := range []engine.Engine{engine.Docker, engine.Podman, engine.Containerd, engine.NRI} {
		all = append(all, &engine.Setup{Engine: e, File: e.File, Record: engineRecord(e)})
	}
	return all
}

func engineSetupRow(s *engine.Setup, root string) setupRow {
	name := s.Engine.Name
	err := s.UseRecordedFile()
	if err == nil {
		err = findRuntimes(s, true)
	}
	var isDone bool
	if err == nil {
		isDone, err = s.IsDone()
	}
	switch {
	case err != nil:
		return setupRow{name, stateUnknown, errorLine(err)}
	case isDone:
		return setupRow{name, stateDone, s.File}
	case name == engine.NRI.Name:
		return nriRow(s, root)
	case !isInstalled(name):
		return setupRow{name, stateNotInstalled, ""}
	default:
		return setupRow{name, stateNotDone, s.File}
	}
}

// nriRow returns the state of NRI if Candor has not enabled it.
func nriRow(s *engine.Setup, root string) setupRow {
	state, err := readNRIState(s, root)
	if err != nil {
		return setupRow{s.Engine.Name, stateUnknown, errorLine(err)}
	}
	return state.row
}

// An nriState is the state of NRI of a machine's containerd.
type nriState struct {
	row    setupRow
	action nriAction
}

// An nriAction is what candor setup node does about NRI.
type nriAction int

const (
	nriNothing nriAction = iota
	nriEnable            // enable NRI
	nriNote              // print a note: the user must enable NRI
	nriRefuse            // fail: a setting keeps NRI off that the command does not change
)

// readNRIState reads the state of NRI for its setup. An error that wraps engine.ErrBadFile means that the configuration of
// containerd cannot be read.
func readNRIState(s *engine.Setup, root string) (state nriState, err error) {
	r, release, err := containerdOf(root, s.Engine.File)
	if err == nil && r != nil && r.Err != nil {
		err = fmt.Errorf("%w: %w", engine.ErrBadFile, r.Err)
	}
	if err != nil {
		return state, err
	}
	is := func(state string, action nriAction, format string, args ...any) (nriState, error) {
		return nriState{setupRow{s.Engine.Name, state, fmt.Sprintf(format, args...)}, action}, nil
	}
	isOff := r != nil && r.Enabled != nil && !*r.Enabled
	switch {
	case r == nil:
		return is(stateNotInstalled, nriNothing, "no containerd")
	case r.NoCRI:
		return is(stateNotNeeded, nriNothing, "containerd has its CRI plugin disabled, and NRI serves only the containers of that plugin")
	case !release.HasNRI():
		return is(stateNotDone, nriNote, "containerd %v has no NRI: install 1.7 or later", release)
	case release.HasNRIOn() && isOff:
		return is(stateNotDone, nriNote, "%s disables NRI: enable it there by hand", r.EnabledFile)
	case release.HasNRIOn():
		return is(stateNotNeeded, nriNothing, "containerd %v has NRI on by default", release)
	case r.IsListedOff:
		return is(stateNotDone, nriRefuse, "%s has NRI in disabled_plugins: remove it from the list", r.EnabledFile)
	case isOff && r.EnabledFile != s.Engine.File:
		return is(stateNotDone, nriRefuse, "%s disables NRI: enable it there by hand", r.EnabledFile)
	case r.Enabled != nil && r.EnabledFile != s.Engine.File:
		return is(stateNotNeeded, nriNothing, "%s enables NRI", r.EnabledFile)
	case r.File != s.Engine.File:
		return is(stateNotDone, nriNote, "containerd %v uses %s: enable NRI there by hand", release, r.File)
	}
	isEnabled, err := s.IsEnabled()
	if err == nil && isEnabled {
		return is(stateNotNeeded, nriNothing, "%s enables NRI", s.File)
	}
	state, _ = is(stateNotDone, nriEnable, "containerd %v has NRI off by default", release)
	return state, err
}

func serviceRow(service *setup.Service) setupRow {
	state, err := service.State()
	switch {
	case err != nil:
		return setupRow{"service", stateUnknown, errorLine(err)}
	case state == setup.ServiceState{}:
		return setupRow{"service", stateNotInstalled, ""}
	case state.IsOff():
		return setupRow{"service", stateNotDone, service.Unit + " " + state.String()}
	default:
		return setupRow{"service", stateDone, service.Unit + " " + state.String()}
	}
}

// isInstalled reports whether the program of an engine is in $PATH. For Docker, this program is the daemon: the client can also be
// installed alone, for a daemon on another machine.
func isInstalled(name string) bool {
	if name == engine.Docker.Name {
		name = "dockerd"
	}
	_, err := exec.LookPath(name)
	return err == nil
}

// releaseLimit bounds the run time of containerd --version.
const releaseLimit = 2 * time.Second

// containerdOf returns the containerd that candor nri serves, and its release, on the machine whose root directory is root. This
// is the running containerd or, if none runs, the installed containerd. If there are several, containerdOf prefers the containerd
// with the given configuration file. Without a containerd, r is nil.
func containerdOf(root, file string) (r *nri.Runtime, release nri.Release, err error) {
	found, unclear := nri.ReadRuntimes(root)
	for i := range found {
		if f := &found[i]; f.Name == nri.Containerd && (r == nil || f.File == file) {
			r = f
		}
	}
	if r == nil {
		return nil, release, unclear
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	release.Name = r.Name
	release.Version, _, err = program.ReadVersion(ctx, r.Program)
	return r, release, err
}
