package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/kube/survey"
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

With --cluster, the command shows the nodes of a Kubernetes cluster instead of this
machine. It reads the reports that candor nri --publish writes.`

const mapExample = `  candor map
  candor map --color always | less -R
  candor map -o svg > map.svg
  candor map -o json --sample 0 | jq .pools
  candor map --cluster
  candor map --cluster --node node-1 -o svg > node-1.svg`

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
	var of clusterFlags
	of.add(cmd, "show the nodes of a Kubernetes cluster instead of this machine", false)
	node := cmd.Flags().String("node", "", "show only this node of the cluster")
	during := cmd.Flags().Duration("sample", 200*time.Millisecond, "time to sample programs outside of Candor on exclusive CPUs; 0 disables it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *during < 0 || *during > time.Minute {
			return badInput("--sample %v: must be 0 to 1m", *during)
		}
		if err := of.check(cmd, []string{"node"}, []string{"sample", "state-dir", "config", "cgroup-parent", "cgroup-driver", "verbose"}); err != nil {
			return err
		}
		if of.cluster {
			if cmd.Flags().Changed("node") && *node == "" {
				return badInput("--node \"\": must be a node's name, as kubectl get nodes shows it; leave out --node for all nodes")
			}
			return mapCluster(cmd, &of, *node, output.value, color.value)
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

// mapCluster draws the nodes of a cluster, or a single node.
func mapCluster(cmd *cobra.Command, of *clusterFlags, name, form, color string) error {
	if form == "svg" && name == "" {
		return badInput("-o svg: a picture shows one node: add --node NAME")
	}
	c, err := of.client()
	if err != nil {
		return err
	}
	s, err := survey.Read(cmd.Context(), c)
	if err != nil {
		return err
	}
	nodes := s.Nodes
	if name != "" {
		node, err := s.Node(name)
		if err != nil {
			return badInput("--node: %w", err)
		}
		nodes = []survey.Node{*node}
	}
	out, names := cmd.OutOrStdout(), s.Names()
	for i := range nodes {
		n := &nodes[i]
		switch form {
		case "json":
			err = writeNodeJSON(out, n, names)
		case "svg":
			err = writeNodePicture(out, n, names)
		default:
			err = writeNode(out, n, names, i == 0, textOptions(out, color))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mapOf returns the map of a node of the cluster. n.CPUs must not be nil: the node has published a report.
func mapOf(n *survey.Node, names map[string]podname.Name) *cpumap.Map {
	m := cpumap.FromNode(n.CPUs)
	m.Names, m.SeenCPUs = names, n.SeenCPUs
	return m
}

// writeNode draws a node, under its name.
func writeNode(out io.Writer, n *survey.Node, names map[string]podname.Name, first bool, o cpumap.TextOptions) error {
	heading := "Node " + cpumap.Clean(n.Name)
	if !first {
		heading = "\n" + heading
	}
	if n.CPUs == nil {
		_, err := fmt.Fprintf(out, "%s: %s\n", heading, cpumap.Clean(n.Problem))
		return err
	}
	if _, err := fmt.Fprintf(out, "%s: ", heading); err != nil {
		return err
	}
	return mapOf(n, names).Text(out, o)
}

// A nodeMap is the JSON form of a node.
type nodeMap struct {
	Node    string           `json:"node"`
	Problem string           `json:"problem,omitempty"` // reason for a missing map
	Map     *cpumap.Document `json:"map,omitempty"`     // as candor map writes it on the node
}

// writeNodeJSON writes a node as a JSON line.
func writeNodeJSON(out io.Writer, n *survey.Node, names map[string]podname.Name) error {
	line := nodeMap{Node: n.Name, Problem: n.Problem}
	if n.CPUs != nil {
		line.Map = mapOf(n, names).Document()
	}
	return writeJSONLine(out, line)
}

// writeNodePicture draws a node as a picture.
func writeNodePicture(out io.Writer, n *survey.Node, names map[string]podname.Name) error {
	if n.CPUs == nil {
		return badInput("--node %s: %s", n.Name, n.Problem)
	}
	return mapOf(n, names).SVG(out)
}
