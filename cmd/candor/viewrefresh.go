package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
)

const viewRefreshLong = `Keep the memory and the CPU time in the views of containers current, until the command
is stopped. It is for the containers of Docker and Podman: candor nri and candor run do
this for their own containers. If the command stops, the files in the containers stay
readable, and MemTotal stays right.

With --unit, the command prints a systemd unit that runs it.`

const viewRefreshExample = `  candor view refresh --unit >/etc/systemd/system/candor-view.service
  systemctl enable --now candor-view.service`

// newViewRefreshCommand returns candor view refresh. It is hidden, because candor view has arguments of its own, and no list of subcommands.
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
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
		return hostError(h.RefreshViews(ctx))
	}
	return cmd
}

// refreshUnit is the unit of candor view refresh. Its rights are those of reading cgroups and writing the state directory.
const refreshUnit = `# Keeps the memory in the views of Docker's and Podman's containers current. A stop of this service changes no container.
[Unit]
Description=Candor: memory in the views of containers
Documentation=https://github.com/candor-project/candor

[Service]
Type=notify
ExecStart=%s
Restart=always
RestartSec=1
MemoryMax=128M
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateNetwork=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
`

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
	command := []string{self, "view", "refresh", "--state-dir", dir}
	if parent := machine.options.Cgroup.Parent; parent != "" {
		command = append(command, "--cgroup-parent", parent)
	}
	for _, word := range command {
		if strings.ContainsAny(word, " \t\n\"'%$\\") {
			return badInput("%q: must have no spaces, quotes and special characters, because a unit cannot hold it", word)
		}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), refreshUnit, strings.Join(command, " "))
	return err
}
