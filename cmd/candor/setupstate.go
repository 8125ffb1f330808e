package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/cmd/candor/internal/texttable"
)

const setupLong = `Configure this machine and its container engines. Without a subcommand, the command
lists all setups and their state, and changes nothing. candor setup node does the setups
that fit this machine.`

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
		rows := setupRows(&setup.Service{Unit: setup.ServiceUnit})
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

// setupRows reads the state of all setups.
func setupRows(service *setup.Service) []setupRow {
	rows := []setupRow{hostSetupRow()}
	for _, s := range plainEngineSetups() {
		rows = append(rows, engineSetupRow(s))
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

func engineSetupRow(s *engine.Setup) setupRow {
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
		return nriRow(s)
	case !isInstalled(name):
		return setupRow{name, stateNotInstalled, ""}
	default:
		return setupRow{name, stateNotDone, s.File}
	}
}

// nriRow returns the state of NRI if Candor has not enabled it.
func nriRow(s *engine.Setup) setupRow {
	name := s.Engine.Name
	version, isKnown := containerdVersion()
	if !isKnown {
		return setupRow{name, stateNotInstalled, "no containerd"}
	}
	if version.hasNRIOn() {
		return setupRow{name, stateNotNeeded, fmt.Sprintf("containerd %v has NRI on by default", version)}
	}
	if !version.hasNRI() {
		return setupRow{name, stateNotDone, fmt.Sprintf("containerd %v has no NRI: install 1.7 or later", version)}
	}
	isEnabled, err := s.IsEnabled()
	switch {
	case err != nil:
		return setupRow{name, stateUnknown, errorLine(err)}
	case isEnabled:
		return setupRow{name, stateNotNeeded, s.File + " enables NRI"}
	default:
		return setupRow{name, stateNotDone, fmt.Sprintf("containerd %v has NRI off by default", version)}
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

// isInstalled reports whether a program of an engine is in $PATH. Docker's daemon counts, because its client alone can
// use another machine.
func isInstalled(name string) bool {
	if name == engine.Docker.Name {
		name = "dockerd"
	}
	_, err := exec.LookPath(name)
	return err == nil
}

// A containerdRelease is a version of containerd.
type containerdRelease struct{ major, minor int }

func (v containerdRelease) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v containerdRelease) hasNRI() bool   { return v.major > 1 || v.major == 1 && v.minor >= 7 }
func (v containerdRelease) hasNRIOn() bool { return v.major >= 2 }

var versionPattern = regexp.MustCompile(`\bv?([0-9]{1,4})\.([0-9]{1,4})\.[0-9]+`)

// containerdVersion returns the version of the containerd in $PATH.
func containerdVersion() (v containerdRelease, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, "containerd", "--version").Output()
	if err != nil {
		return v, false
	}
	match := versionPattern.FindSubmatch(text)
	if match == nil {
		return v, false
	}
	v.major, _ = strconv.Atoi(string(match[1]))
	v.minor, _ = strconv.Atoi(string(match[2]))
	return v, true
}

// A changeRow is a value that a command changes.
type changeRow struct {
	What   string `json:"what"`
	Before string `json:"before"` // "": no value
	After  string `json:"after"`
}

// A changeReport lists the changes that were made or planned.
type changeReport struct {
	Changes []changeRow `json:"changes"`
	Notes   []string    `json:"notes,omitempty"`
	DryRun  bool        `json:"dryRun"`
}

// add adds a change. A change that a second attempt finds again is listed once.
func (r *changeReport) add(what, before, after string) {
	for _, c := range r.Changes {
		if c.What == what && c.After == after {
			return
		}
	}
	r.Changes = append(r.Changes, changeRow{what, before, after})
}

// write writes the changes as a table, and the notes below it. nothing is the text for no change.
func (r *changeReport) write(w io.Writer, nothing string) error {
	if len(r.Changes) == 0 {
		fmt.Fprintln(w, nothing)
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
	return nil
}
