package main

import (
	"github.com/spf13/cobra"
)

const topologyLong = `Show the CPU topology of a machine: sockets, NUMA nodes, L3 domains, cores and
logical CPUs.

Without --machine, the command shows this machine. --machine accepts a JSON file of
candor topology -o json, a directory with a copy of /sys, or a description in hwloc's
notation.

A description lists the levels of the machine, from the largest to the smallest. The
number after a level is the number of its units in each unit of the previous level. The
description

  "pack:2 numa:2 core:4 pu:2"

is a machine with 2 sockets, 2 NUMA nodes in each socket, 4 cores in each NUMA node and 2
CPUs in each core. The CPUs are numbered as on most Linux machines: the first CPU of every
core has a lower number than the second CPU of any core.`

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
		return writeJSON(cmd.OutOrStdout(), m)
	}
	return cmd
}
