package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

const topologyLong = `Show the CPUs of a machine as Candor sees them: sockets, NUMA nodes, L3 domains,
cores, and the logical CPUs on them.

Without --machine it is this machine. A machine that is not here can be written
down in hwloc's notation, from the largest part to the smallest, each with the
number of it in one of the part before; CPUs are numbered as Linux does: first
the first threads of all cores, then the second ones.`

const topologyExample = `  candor topology
  candor topology --machine "pack:2 numa:2 l3:2 core:4 pu:2"
  candor topology -o json > big.json; candor topology --machine big.json`

func newTopologyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topology",
		Short:   "Show sockets, NUMA nodes, L3 domains, cores and CPUs",
		Long:    topologyLong,
		Example: topologyExample,
		Args:    noArgs,
	}
	machine := cmd.Flags().String("machine", "this", machineUsage)
	output := outputFlag(cmd, "tree", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m, err := loadMachine(*machine)
		if err != nil {
			return err
		}
		if output.value == "tree" {
			return m.WriteTree(cmd.OutOrStdout())
		}
		e := json.NewEncoder(cmd.OutOrStdout())
		return e.Encode(m)
	}
	return cmd
}
