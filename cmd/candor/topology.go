package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

const topologyLong = `Show the CPU topology of a machine: sockets, NUMA nodes, L3 domains, cores and
logical CPUs.

Without --machine, the command shows this machine. --machine also accepts hwloc's
notation, from the largest part to the smallest. Each number counts the parts within
one part of the level before: "pack:2 numa:2 core:4 pu:2" has 2 sockets, 2 NUMA nodes in
each socket, 4 cores in each NUMA node and 2 CPUs in each core. CPUs are numbered as on
Linux: first the first threads of all cores, then the second threads.`

const topologyExample = `  candor topology
  candor topology --machine "pack:2 numa:2 l3:2 core:4 pu:2"
  candor topology -o json > big.json; candor topology --machine big.json`

func newTopologyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topology",
		Short:   "Show the CPU topology of a machine",
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
