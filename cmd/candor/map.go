package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

const mapLong = `Show the CPU map of this machine: its sockets, NUMA nodes, L3 domains and cores, and the
containers with their limits and the number of CPUs that they see. 1/2 means that the
affinity of a container has 1 CPU, and /proc/cpuinfo and /sys/devices/system/cpu/online
show 2. A second list shows the containers that Candor does not manage. There are four
kinds of CPUs:

  exclusive   CPU of a single sensitive container
  fractional  CPU that runs fractions of limits, such as 500m of the limit 1500m
  shared      CPU that the flexible containers share
  reserved    CPU for programs outside of Candor

For the time of --sample, the command also measures the use of the exclusive CPUs by
programs outside of Candor. --sample 0 disables the measurement.

kubectl candor map shows the nodes of a Kubernetes cluster.`

const mapExample = `  candor map
  candor map --color always | less -R
  candor map -o svg > map.svg
  candor map -o json --sample 0 | jq .pools`

func newMapCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "map",
		Short:   "Show the CPU map of this machine",
		Long:    mapLong,
		Example: mapExample,
		Args:    noArgs,
	}
	machine := addHostFlags(cmd)
	output := outputFlag(cmd, "table", "json", "svg")
	color := colorFlag(cmd)
	addMovedFlags(cmd, "kubectl candor map", map[string]string{"cluster": "", "node": "", "kubeconfig": "", "context": "", "timeout": ""})
	during := cmd.Flags().Duration("sample", 200*time.Millisecond, "time to sample programs outside of Candor on exclusive CPUs; 0 disables it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *during < 0 || *during > time.Minute {
			return badInput("--sample %v: must be 0 to 1m", *during)
		}
		h, s, err := machine.snapshot(cmd)
		if err != nil {
			return err
		}
		defer h.Close()
		m := cpumap.FromNode(s.Node)
		m.Names, m.SeenCPUs = s.DisplayNames(), seenBy(h, s.Grants)
		addForeign(cmd, m, &machine.options, s.Grants)
		if err := addGroups(m, h, s); err != nil {
			return err
		}
		if *during > 0 {
			m.ForeignUses = sampleForeignUses(cmd.Context(), h, s.Grants, *during)
		}
		out := cmd.OutOrStdout()
		switch output.value {
		case "json":
			return m.JSON(out)
		case "svg":
			return m.SVG(out)
		}
		return m.Text(out, textOptions(out, color.value))
	}
	return cmd
}

// addForeign adds the containers that Candor does not manage. It reports an error without ending the command.
func addForeign(cmd *cobra.Command, m *cpumap.Map, options *host.Options, grants []host.Grant) {
	var err error
	if m.Foreign, err = foreignContainers(options, grants); err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "candor: cannot list the foreign containers:", errorLine(err))
	}
}

// addGroups adds the cgroups whose quotas limit containers, and the foreign cgroups that reserve CPUs.
func addGroups(m *cpumap.Map, h *host.Host, s *host.Snapshot) error {
	limits, err := h.GroupLimits(s)
	if err != nil {
		return err
	}
	for _, l := range limits {
		m.Limits = append(m.Limits, cpumap.GroupLimit(l))
	}
	reservations, err := h.Reservations()
	for _, r := range reservations {
		m.Reservations = append(m.Reservations, cpumap.Reservation{Group: r.Path, CPUs: r.CPUs})
	}
	return err
}

// sampleForeignUses samples the exclusive CPUs of all containers at the same time. It skips containers that cannot be sampled, such
// as a container that has just ended.
func sampleForeignUses(ctx context.Context, h *host.Host, grants []host.Grant, during time.Duration) []cpumap.ForeignUse {
	var all []cpumap.ForeignUse
	var lock sync.Mutex
	var wait sync.WaitGroup
	for i := range grants {
		wait.Go(func() {
			used, err := h.SampleForeign(ctx, &grants[i], during)
			if err != nil {
				return
			}
			lock.Lock()
			defer lock.Unlock()
			all = append(all, foreignUsesOf(&grants[i], used)...)
		})
	}
	wait.Wait()
	sortStrangers(all)
	return all
}

// foreignUsesOf returns the samples of a container in the order of the CPUs, or nil without samples.
func foreignUsesOf(g *host.Grant, used map[int]float64) []cpumap.ForeignUse {
	if used == nil {
		return nil
	}
	list := []cpumap.ForeignUse{}
	for cpu, share := range used {
		s := cpumap.ForeignUse{CPUs: g.Exclusive, Milli: hybrid.Milli(share * 1000)}
		if cpu >= 0 { // -1: all exclusive CPUs together
			s.CPUs = cpuset.Of(cpu)
		}
		list = append(list, s)
	}
	sortStrangers(list)
	return list
}

func sortStrangers(list []cpumap.ForeignUse) {
	slices.SortFunc(list, func(a, b cpumap.ForeignUse) int { return a.CPUs.First() - b.CPUs.First() })
}
