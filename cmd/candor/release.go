package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/host"
)

const releaseLong = `Release the CPUs of a container.

Two kinds of containers need this command: a container whose main program has ended while
its other processes still run, and a container that has ended and whose CPUs are reserved
for its restart. If processes of the container still run, --kill is required. candor kill
NAME is short for candor release NAME --kill.`

func newReleaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "release NAME [--kill]",
		Short:   "Release the CPUs of a container",
		Long:    releaseLong,
		Example: "  candor release web --kill",
		Args:    oneName,
	}
	machine := addHostFlags(cmd)
	kill := cmd.Flags().Bool("kill", false, "kill the container's processes (SIGKILL) first")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := machine.open(cmd)
		if err != nil {
			return err
		}
		defer h.Close()
		name, err := idNamed(h, args[0])
		if err == nil {
			err = h.Release(cmd.Context(), name, *kill || cmd.CalledAs() == "kill")
		}
		if errors.Is(err, host.ErrPopulated) && !errors.Is(err, host.ErrEngineOwned) {
			err = fmt.Errorf("%w; --kill ends them", err)
		}
		return hostError(err)
	}
	return cmd
}
