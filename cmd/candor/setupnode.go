package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/internal/errline"
)

const setupNodeLong = `Run the setups that this machine needs:

  - If Docker or Podman is installed, add Candor's OCI runtimes to its configuration.
  - If containerd 1.7 is installed, enable NRI, which is off there by default.
  - If candor-nri.service is installed, and also containerd or CRI-O, enable and start the
    service.

The command does not reload or restart an engine; it prints the command for that.

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
		n := &nodeSetup{root: "/", service: &setup.Service{Unit: setup.ServiceUnit}, report: changeReport{Changes: []changeRow{}, DryRun: *dry}}
		do := n.apply
		if *undo {
			do = n.undo
		}
		err := do(*dry)
		if errors.Is(err, engine.ErrBadFile) {
			err = &exitError{exitBadInput, err}
		}
		if err != nil && len(n.report.Changes) == 0 {
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
	report  changeReport
}

// engines returns the setups that this machine needs: of Docker and Podman if they are installed, and of NRI if containerd has
// NRI off.
func (n *nodeSetup) engines() (fitting []*engine.Setup, err error) {
	for _, s := range plainEngineSetups() {
		switch s.Engine.Name {
		case engine.Containerd.Name: // candor nri serves containerd
			continue
		case engine.NRI.Name:
			isFitting, err := n.needsNRI(s)
			if err != nil {
				return nil, err
			}
			if !isFitting {
				continue
			}
		default:
			if !isInstalled(s.Engine.Name) {
				continue
			}
			if err := findRuntimes(s, false); err != nil {
				return nil, err
			}
		}
		if err := s.UseRecordedFile(); err != nil {
			return nil, err
		}
		fitting = append(fitting, s)
	}
	return fitting, nil
}

// needsNRI reports whether the containerd of this machine reads the file of the setup, has NRI off by default, and is not
// configured to enable NRI.
func (n *nodeSetup) needsNRI(s *engine.Setup) (bool, error) {
	r, release, err := containerdOf(n.root, s.Engine.File)
	if err != nil || r == nil {
		return false, err
	}
	isEnabled := r.Enabled != nil && *r.Enabled
	return r.File == s.Engine.File && release.HasNRI() && !release.HasNRIOn() && !isEnabled, nil
}

func (n *nodeSetup) apply(dry bool) error {
	engines, err := n.engines()
	if err != nil {
		return err
	}
	for _, s := range engines {
		change, err := s.Apply(dry)
		if err != nil {
			return err
		}
		n.report.addEngine(s, &change, stateNotDone, stateDone, s.Engine.Then)
	}
	return n.startService(dry)
}

// startService starts the service if the machine has a runtime that the service serves.
func (n *nodeSetup) startService(dry bool) error {
	state, err := n.service.State()
	if err != nil || !state.IsOff() || state == (setup.ServiceState{}) {
		return err
	}
	if runtimes, unclear := nri.ReadRuntimes(n.root); len(runtimes) == 0 {
		return unclear
	}
	if !dry {
		if err := n.service.On(); err != nil {
			return err
		}
	}
	n.report.add(n.service.Unit, state.String(), "active, enabled")
	return nil
}

func (n *nodeSetup) undo(dry bool) error {
	if err := n.report.stopService(n.service, dry); err != nil {
		return err
	}
	for _, s := range slices.Backward(plainEngineSetups()) {
		if s.Engine.Name == engine.Containerd.Name {
			continue
		}
		if err := n.report.undoEngine(s, dry); err != nil {
			return err
		}
	}
	return nil
}
