package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/internal/errline"
)

const setupNodeLong = `Run the setups that this machine needs:

  - If Docker or Podman is installed, add Candor's OCI runtimes to its configuration.
  - If containerd 1.7 is installed, enable NRI, which is off there by default.
  - If candor-nri.service is installed, and also CRI-O or a containerd with its CRI plugin,
    enable and start the service.

If a file cannot be changed as needed, the command changes nothing. The command does not
reload or restart an engine; it prints the command for that.

--undo stops and disables the service and restores the files.`

const setupNodeExample = `  candor setup node --dry-run
  candor setup node
  candor setup node --undo`

func newSetupNodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "node",
		Short:   "Run the setups that this machine needs",
		Long:    setupNodeLong,
		Example: setupNodeExample,
		Args:    noArgs,
	}
	output := outputFlag(cmd, "table", "json")
	undo := cmd.Flags().Bool("undo", false, "stop the service and restore the engines' files")
	dry := cmd.Flags().Bool("dry-run", false, "print the changes without applying them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		n := &nodeSetup{
			root: "/", service: &setup.Service{Unit: setup.ServiceUnit}, refresh: &setup.Service{Unit: setup.ViewUnit}, all: plainEngineSetups,
			report: changeReport{Changes: []changeRow{}, DryRun: *dry},
		}
		do := n.apply
		if *undo {
			do = n.undo
		}
		err := do(*dry)
		hasChanged := len(n.report.Changes) > 0 && !*dry
		if errors.Is(err, engine.ErrBadFile) && !hasChanged {
			err = &exitError{exitBadInput, err}
		}
		if err != nil && !hasChanged {
			return err
		}
		if output.value == "json" {
			return errline.Join(err, writeJSON(cmd.OutOrStdout(), n.report))
		}
		return errline.Join(err, n.report.write(cmd.OutOrStdout(), "Nothing to change."))
	}
	return cmd
}

// A nodeSetup is one call of candor setup node. Each step can be repeated: after a failure, the next call does the rest.
type nodeSetup struct {
	root    string // root directory in which the command looks for container runtimes
	service *setup.Service
	refresh *setup.Service         // of candor view refresh
	all     func() []*engine.Setup // the setups of all engines and of NRI
	report  changeReport
}

// A nodeStep is a part of candor setup node.
type nodeStep struct {
	name string               // such as setup docker
	do   func(dry bool) error // makes the change, and adds it to the report; with dry, it only adds the change
}

// run makes the changes of all steps. A dry run of all steps precedes the first change: an error in it leaves the machine
// unchanged. If a step then fails, a note names the steps that are not done.
func (n *nodeSetup) run(steps []nodeStep, dry bool) error {
	notes := slices.Clone(n.report.Notes)
	for _, s := range steps {
		if err := s.do(true); err != nil {
			n.report.Changes, n.report.Notes = []changeRow{}, notes
			return err
		}
	}
	if dry {
		return nil
	}
	n.report.Changes, n.report.Notes = []changeRow{}, notes
	for i, s := range steps {
		if err := s.do(false); err != nil {
			n.noteNotDone(steps[i:])
			return err
		}
	}
	return nil
}

func (n *nodeSetup) noteNotDone(steps []nodeStep) {
	var names []string
	for _, s := range steps {
		names = append(names, s.name)
	}
	n.report.addNote("not done: " + strings.Join(names, ", ") + "; correct the error and repeat the command")
}

// engines returns the setups that this machine needs: of Docker and Podman if they are installed, and of NRI if containerd has
// NRI off.
func (n *nodeSetup) engines() (fitting []*engine.Setup, err error) {
	for _, s := range n.all() {
		isNRI := s.Engine.Name == engine.NRI.Name
		if s.Engine.Name == engine.Containerd.Name || !isNRI && !isInstalled(s.Engine.Name) { // candor nri serves containerd
			continue
		}
		if err := s.UseRecordedFile(); err != nil {
			return nil, err
		}
		isFitting := true
		if isNRI {
			isFitting, err = n.needsNRI(s)
		} else {
			err = findRuntimes(s, false)
		}
		if err != nil {
			return nil, err
		}
		if isFitting {
			fitting = append(fitting, s)
		}
	}
	return fitting, nil
}

// needsNRI reports whether containerd has NRI off by default, and the setup can change this. If only the user can enable NRI,
// needsNRI adds a note, or fails if a setting keeps NRI off.
func (n *nodeSetup) needsNRI(s *engine.Setup) (bool, error) {
	state, err := readNRIState(s, n.root)
	switch {
	case err != nil:
		return false, err
	case state.action == nriNote:
		n.report.addNote("nri: " + state.row.Details)
	case state.action == nriRefuse:
		return false, fmt.Errorf("%w %s", engine.ErrBadFile, state.row.Details)
	}
	return state.action == nriEnable, nil
}

func (n *nodeSetup) apply(dry bool) error {
	engines, err := n.engines()
	if err != nil {
		return err
	}
	if err := n.noteRefresh(engines); err != nil {
		return err
	}
	var steps []nodeStep
	for _, s := range engines {
		steps = append(steps, nodeStep{"setup " + s.Engine.Name, func(dry bool) error {
			change, err := s.Apply(dry)
			if err == nil {
				n.report.addEngine(s, &change, stateNotDone, stateDone, s.Engine.Then)
			}
			return err
		}})
	}
	return n.run(append(steps, nodeStep{n.service.Unit, n.startService}), dry)
}

// noteRefresh adds a note if no service refreshes the memory in the views of Docker's and Podman's containers: neither candor nri
// nor candor view refresh.
func (n *nodeSetup) noteRefresh(engines []*engine.Setup) error {
	if !slices.ContainsFunc(engines, func(s *engine.Setup) bool { return s.Engine.Name != engine.NRI.Name }) {
		return nil
	}
	agent, err := n.service.State()
	if err != nil {
		return err
	}
	refresh, err := n.refresh.State()
	isStarting, _ := n.hasCRI() // startService reports the error
	if err != nil || !refresh.IsOff() || !agent.IsOff() || agent != (setup.ServiceState{}) && isStarting {
		return err
	}
	n.report.addNote("view: " + strings.Join(refreshHint, " "))
	return nil
}

// refreshHint describes the service of candor view refresh, in two lines.
var refreshHint = []string{
	"Unless candor nri runs on this machine, a service keeps the memory in the views of containers current:",
	"candor view refresh --unit >/etc/systemd/system/candor-view.service && systemctl enable --now candor-view.service",
}

// hasCRI reports whether the machine has a runtime that candor nri serves. The error is that of runtimes whose configuration
// cannot be read.
func (n *nodeSetup) hasCRI() (bool, error) {
	runtimes, unclear := nri.ReadRuntimes(n.root)
	return slices.ContainsFunc(runtimes, func(r nri.Runtime) bool { return !r.NoCRI }), unclear
}

// startService starts the service if the machine has a runtime that the service serves.
func (n *nodeSetup) startService(dry bool) error {
	state, err := n.service.State()
	if err != nil || !state.IsOff() || state == (setup.ServiceState{}) {
		return err
	}
	if isServed, unclear := n.hasCRI(); !isServed {
		return unclear
	}
	if dry {
		n.report.add(n.service.Unit, state.String(), "active, enabled")
		return nil
	}
	err = n.service.On()
	after := "active, enabled"
	if err != nil { // the service can be enabled, but not started
		now, _ := n.service.State()
		after = now.String()
	}
	if after != "" && after != state.String() {
		n.report.add(n.service.Unit, state.String(), after)
	}
	return err
}

func (n *nodeSetup) undo(dry bool) error {
	steps := []nodeStep{{n.service.Unit, func(dry bool) error { return n.report.stopService(n.service, dry) }}}
	for _, s := range slices.Backward(n.all()) {
		if s.Engine.Name == engine.Containerd.Name {
			continue
		}
		steps = append(steps, nodeStep{"setup " + s.Engine.Name, func(dry bool) error { return n.report.undoEngine(s, dry) }})
	}
	return n.run(steps, dry)
}
