package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cmd/candor/internal/doctor"
	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
)

// removalUninstall is the output of candor internal-removal if the caller must run candor uninstall.
const removalUninstall = "uninstall"

// newInternalRemovalCommand returns the command that the packages of Candor call before their removal (deploy/packages/prerm). It
// fails while containers use the program as their OCI runtime. It prints "uninstall" if Candor is in use on this machine.
// Otherwise, such as in a chroot in which a machine image is built, it only undoes the setups of engines, because no containers
// must be given back, and often no cgroups are mounted.
func newInternalRemovalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "internal-removal",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	machine := addHostFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runRemoval(cmd, machine, doctor.DefaultNRIConfig) }
	return cmd
}

// runRemoval runs candor internal-removal. config is the configuration of candor nri, which can name the state directory. If
// the file is invalid, the removal fails before its first change: the containers of an unknown state would keep Candor's CPUs.
func runRemoval(cmd *cobra.Command, machine *hostFlags, config string) error {
	if err := machine.useNodeStateDir(cmd, config); err != nil {
		return err
	}
	r := &removal{
		machine:  machine,
		service:  &setup.Service{Unit: setup.ServiceUnit},
		isInUse:  state.NewStore(machine.options.StateDir).IsInUse(),
		isChroot: isChroot("/proc/1/root/", "/"),
	}
	return r.run(cmd)
}

// A removal is one call of candor internal-removal.
type removal struct {
	machine  *hostFlags
	service  *setup.Service
	isInUse  bool // there is a state
	isChroot bool // the visible cgroups can belong to a system with another root directory
}

func (r *removal) run(cmd *cobra.Command) error {
	h, err := r.machine.open(cmd)
	if err != nil {
		if r.isInUse {
			return err
		}
		return undoEngines(cmd, nil)
	}
	defer h.Close()
	if err := r.checkRuntimeUse(h); err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(filepath.Dir(r.machine.options.Config), setup.Record))
	switch {
	case r.isForeignAgent(h):
		fmt.Fprintln(cmd.ErrOrStderr(), "candor: another candor nri manages this machine; its containers keep their CPUs")
		return undoEngines(cmd, []string{engine.NRI.Name}) // the agent needs NRI
	case r.isInUse, err == nil && !r.isChroot:
		_, err := fmt.Fprintln(cmd.OutOrStdout(), removalUninstall)
		return err
	default:
		return undoEngines(cmd, nil)
	}
}

// checkRuntimeUse fails while containers use the program as their OCI runtime: without the program, their engine cannot stop
// them. After candor uninstall, there is no record of such containers. checkRuntimeUse then regards each cgroup with the name of
// an engine's container as such a container.
func (r *removal) checkRuntimeUse(h *host.Host) error {
	ids, err := h.RunningBundles()
	if err != nil {
		return err
	}
	s, err := h.Snapshot()
	switch {
	case err != nil: // a state that cannot be read: the IDs are sufficient
		s = new(host.Snapshot)
	case !r.isInUse && !r.isChroot && s.Owner == "":
		ids = append(ids, slices.DeleteFunc(s.Strays, func(name string) bool { return !shortContainerID.MatchString(name) })...)
	}
	if len(ids) == 0 {
		return nil
	}
	return fmt.Errorf("cannot remove the program: candor-runc is the OCI runtime of running containers: %s; remove these containers first",
		shownNames(s, ids, 5))
}

// shownNames returns the display names of containers as a list. most is the maximum number of names.
func shownNames(s *host.Snapshot, ids []string, most int) string {
	var names []string
	for _, id := range ids[:min(len(ids), most)] {
		name := id
		if g, err := s.Grant(id); err == nil {
			name = nameFrom(s, g)
		}
		names = append(names, name)
	}
	if more := len(ids) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// isForeignAgent reports whether an agent runs that does not belong to the service, such as an agent in a pod of Candor's Helm
// chart.
func (r *removal) isForeignAgent(h *host.Host) bool {
	service, err := r.service.State()
	return err == nil && !service.IsRunning() && errors.Is(h.CheckNoAgent(), host.ErrAgentRuns)
}

// undoEngines undoes the recorded setups of engines, except those of the named engines.
func undoEngines(cmd *cobra.Command, except []string) error {
	for _, s := range plainEngineSetups() {
		if _, err := os.Stat(s.Record); err != nil || slices.Contains(except, s.Engine.Name) {
			continue
		}
		change, err := undoSetup(s, false)
		if err != nil {
			return uninstallError(err)
		}
		if !change.Nothing() {
			fmt.Fprintf(cmd.ErrOrStderr(), "candor: undid setup %s in %s; now: %s\n", s.Engine.Name, change.File, s.Engine.ThenUndo)
		}
	}
	return nil
}

// isChroot reports whether the root directory of this process (own) differs from the root directory of process 1 (ofFirst). They
// also count as different if /proc has no directory of process 1, as in a chroot without procfs. They count as equal if this
// process has no right to read the root directory of process 1, for example in a container.
func isChroot(ofFirst, own string) bool {
	first, err := os.Stat(ofFirst)
	if err != nil {
		return !errors.Is(err, fs.ErrPermission)
	}
	here, err := os.Stat(own)
	return err != nil || !os.SameFile(first, here)
}
