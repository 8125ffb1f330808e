package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/candor-project/candor/deploy"
	"github.com/candor-project/candor/host"
)

const viewRefreshLong = `Keep the memory and the CPU time in the views of containers current, until the command
is stopped. It is for the containers of Docker and Podman: candor nri and candor run do
this for their own containers. If the command stops, the files in the containers stay
readable, and MemTotal stays right.

With --unit, the command prints a systemd unit that runs it.`

const viewRefreshExample = `  candor view refresh --unit >/etc/systemd/system/candor-view.service
  systemctl enable --now candor-view.service`

// newViewRefreshCommand returns candor view refresh. It is hidden, because candor view has arguments of its own, and no list of
// subcommands.
func newViewRefreshCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "refresh",
		Short:   "Keep the memory in the views of containers current",
		Long:    viewRefreshLong,
		Example: viewRefreshExample,
		Args:    noArgs,
		Hidden:  true,
	}
	machine := addHostFlags(cmd)
	unit := cmd.Flags().Bool("unit", false, "print a systemd unit that runs the command, and stop")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *unit {
			return writeRefreshUnit(cmd, machine)
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		machine.options.HoldViews = true
		h, err := machine.openToLook(cmd)
		if err != nil {
			return err
		}
		defer h.Close()
		h.KeepOpen(host.MaxOpenFiles())
		go closeUnused(ctx, h)
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
		return hostError(h.RefreshViews(ctx))
	}
	return cmd
}

const closeUnusedEvery = 30 * time.Second

// closeUnused closes the files of KeepOpen of containers that have ended or whose views no program reads, until ctx is done.
func closeUnused(ctx context.Context, h *host.Host) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(closeUnusedEvery):
			h.CloseUnused()
		}
	}
}

// writeRefreshUnit prints the unit.
func writeRefreshUnit(cmd *cobra.Command, machine *hostFlags) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(machine.options.StateDir)
	if err != nil {
		return err
	}
	command := []string{self, "view", "refresh"}
	for _, flag := range []string{"cgroup-parent", "cgroup-driver", "config"} {
		if f := cmd.Flags().Lookup(flag); f.Changed {
			command = append(command, "--"+flag, f.Value.String())
		}
	}
	if cmd.Flags().Changed("state-dir") {
		if err := checkUnitStateDir(dir); err != nil {
			return err
		}
		command = append(command, "--state-dir", dir)
	}
	for _, word := range command {
		if strings.ContainsAny(word, " \t\n\"'%$\\") {
			return badInput("%q: must have no spaces, quotes and special characters, because a unit cannot hold it", word)
		}
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), strings.Replace(deploy.ViewUnit, deploy.Program+" view refresh", strings.Join(command, " "), 1))
	return err
}

// hiddenDirs are the directories that candor-view.service cannot write, because of ProtectHome, PrivateTmp and ProtectSystem.
var hiddenDirs = []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp", "/usr", "/boot", "/efi", "/etc"}

// checkUnitStateDir refuses a state directory that candor-view.service cannot write.
func checkUnitStateDir(dir string) error {
	if target, err := filepath.EvalSymlinks(dir); err == nil { // the directory can be missing
		dir = target
	}
	for _, hidden := range hiddenDirs {
		if dir == hidden || strings.HasPrefix(dir, hidden+"/") {
			return badInput("--state-dir %s: must not be below %s, which the unit cannot write", dir, hidden)
		}
	}
	return nil
}
