package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/cmd/candor/internal/texttable"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/internal/program"
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
	output := outputFlag(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		rows := setupRows("/", &setup.Service{Unit: setup.ServiceUnit})
		if output.value == "json" {
			return writeJSON(cmd.OutOrStdout(), rows)
		}
		t := texttable.Table{Titles: []string{"SETUP", "STATE", "DETAILS"}}
		for _, r := range rows {
			t.Rows = append(t.Rows, []string{r.Setup, r.State, orDash(r.Details)})
		}
		return t.Write(cmd.OutOrStdout(), 0)
	}
	cmd.AddCommand(newSetupHostCommand(), newSetupNodeCommand())
	cmd.AddCommand(newSetupEngineCommands()...)
	return cmd
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

// plainEngineSetups returns the setups of all engines and of NRI, without runtimes.
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
	name := s.Engine.Name
	containerd, release, err := containerdOf(root, s.Engine.File)
	switch {
	case err != nil:
		return setupRow{name, stateUnknown, errorLine(err)}
	case containerd == nil:
		return setupRow{name, stateNotInstalled, "no containerd"}
	case release.HasNRIOn():
		return setupRow{name, stateNotNeeded, fmt.Sprintf("containerd %v has NRI on by default", release)}
	case !release.HasNRI():
		return setupRow{name, stateNotDone, fmt.Sprintf("containerd %v has no NRI: install 1.7 or later", release)}
	case containerd.Enabled != nil && *containerd.Enabled:
		return setupRow{name, stateNotNeeded, containerd.File + " enables NRI"}
	case containerd.File != s.Engine.File:
		return setupRow{name, stateNotDone, fmt.Sprintf("containerd %v uses %s: enable NRI there by hand", release, containerd.File)}
	}
	isEnabled, err := s.IsEnabled()
	switch {
	case err != nil:
		return setupRow{name, stateUnknown, errorLine(err)}
	case isEnabled:
		return setupRow{name, stateNotNeeded, s.File + " enables NRI"}
	default:
		return setupRow{name, stateNotDone, fmt.Sprintf("containerd %v has NRI off by default", release)}
	}
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

// containerdOf returns the containerd that candor nri serves on a machine with a root directory, and its release: the running containerd
// or, if none runs, the installed containerd. If there are several, containerdOf prefers the containerd with the given configuration file.
// Without a containerd, r is nil.
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
