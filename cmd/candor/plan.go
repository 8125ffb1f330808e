package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/planio"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

const planLong = `Dry-run allocation operations on a machine and print the result.

FILE (or standard input) has an operation per line, as a JSON object.
The command prints the result of a line as soon as it has read the line. Examples:

  {"op":"allocate","id":"web","cpu":"3500m","class":"sensitive"}
  {"op":"allocate","id":"log","cpu":"2","class":"flexible","request":"250m"}
  {"op":"resize","id":"web","cpu":"2"}
  {"op":"release","id":"web"}

A refused operation is a result, not a failure. An invalid line ends the command
with exit code 2. docs/reference/plan.md describes every field.

Without --machine, the command plans for this machine: it reads the topology and the
cpuset of Candor's parent cgroup (--cgroup-parent), as candor run does. The plan starts
with an empty node, because the command reads neither the running containers nor the
machine's options, such as reserved CPUs.

kubectl candor plan predicts the node and the CPUs of a pod in a Kubernetes cluster.`

const planExample = `  candor plan operations.jsonl
  candor plan --machine "pack:2 numa:1 l3:1 core:4 pu:2" -o json operations.jsonl
  echo '{"op":"allocate","id":"web","cpu":"1.5"}' | candor plan
  candor plan --machine "numa:2 core:16 pu:2" -o svg operations.jsonl > map.svg`

// planFlags are the flags of candor plan.
type planFlags struct {
	machine   string
	algorithm hybrid.Algorithm
	policy    hybrid.Policy
	reserved  cpuset.Set
	minShared milliFlag
	isolated  bool // use the CPUs of isolcpus= too
	explain   bool
	parent    cgroup.Options // Candor's parent cgroup on this machine
	driver    *choice
	output    *choice
	color     *choice
}

func newPlanCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:     "plan [FILE|-]",
		Short:   "Dry-run allocation operations on a machine",
		Long:    planLong,
		Example: planExample,
		Args:    atMostOne("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.machine, "machine", "this", machineUsage)
	wordFlag(cmd, &f.algorithm, algorithmWords, "algorithm", "", "allocation algorithm; paper: Algorithm 1 of Bacou et al., SCC 2019")
	wordFlag(cmd, &f.policy, policyWords, "policy", "", "strict refuses a container that would see more CPUs than its limit, rounded up")
	flags.Var(textFlag{&f.reserved, "LIST"}, "reserved", "CPUs that no container gets, such as 0-1,8")
	flags.Var(&f.minShared, "min-shared", "CPU time that only flexible containers can get, such as 500m")
	flags.BoolVar(&f.isolated, "use-isolated", false, "use the CPUs of isolcpus= too")
	flags.BoolVar(&f.explain, "explain", false, `with -o json, add the reasons as a list "explain"; the table always has them`)
	f.driver = addGroupFlags(cmd, &f.parent)
	f.output = outputFlag(cmd, "table", "wide", "json", "svg")
	f.color = colorFlag(cmd)
	addMovedFlags(cmd, "kubectl candor plan", map[string]string{
		"cluster": "", "filename": "f", "pod": "", "cpu": "", "request": "", "memory": "", "class": "", "topology": "", "namespace": "n",
		"kubeconfig": "", "context": "", "timeout": "",
	})
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command, args []string) error {
	machine, err := loadMachine(f.machine)
	if err != nil {
		return err
	}
	if err := host.CheckReserved(f.reserved, machine); err != nil {
		return badInput("--%w", err)
	}
	options := hybrid.Options{
		Algorithm:   f.algorithm,
		Reserved:    f.reserved,
		UseIsolated: f.isolated,
		MinShared:   hybrid.Milli(f.minShared),
	}
	if f.machine == "this" {
		if options.Usable, err = f.usableHere(); err != nil {
			return err
		}
	}
	node, err := hybrid.NewNode(machine, options)
	if err != nil {
		return badInput("%w", err)
	}
	in, name, err := openInput(cmd, args)
	if err != nil {
		return err
	}
	defer in.Close()
	session := planio.Session{Node: node, Policy: f.policy, Explain: f.explain || f.output.value == "table" || f.output.value == "wide"}
	err = f.apply(cmd.OutOrStdout(), &session, in)
	if lineErr := (*planio.LineError)(nil); errors.As(err, &lineErr) {
		return badInput("%s: %w", name, err)
	}
	return err
}

// usableHere returns the CPUs that this machine's cgroups allow containers to use, as for candor
// run. If the machine lacks the cpu or cpuset controller, it returns the empty set, and candor
// plans with all CPUs.
func (f *planFlags) usableHere() (cpuset.Set, error) {
	o, _ := defaultHostOptions()
	o.Cgroup = f.parent
	o.Cgroup.Driver, o.Cgroup.ReadOnly = cgroup.Driver(f.driver.value), true
	h, err := host.Open(o)
	if isOneOf(err, cgroup.ErrNoCPU, cgroup.ErrNoCpuset) {
		return cpuset.Set{}, nil
	}
	if err != nil {
		return cpuset.Set{}, badInput("%w", err)
	}
	defer h.Close()
	usable, err := h.UsableCPUs()
	return usable, hostError(err)
}

// openInput opens the file of operations, and returns a name of the input for errors.
func openInput(cmd *cobra.Command, args []string) (io.ReadCloser, string, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(cmd.InOrStdin()), "standard input", nil
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, "", badInput("%w", err)
	}
	return file, args[0], nil
}

// apply applies the operations and writes the results in the output format.
func (f *planFlags) apply(out io.Writer, s *planio.Session, in io.Reader) error {
	switch f.output.value {
	case "json":
		return s.Run(in, func(r planio.Result) error { return r.WriteJSON(out) })
	case "svg":
		// Operations before an invalid line remain in the picture.
		err := s.Run(in, func(planio.Result) error { return nil })
		return errors.Join(cpumap.FromNode(s.Node).SVG(out), err)
	}
	step := 0
	tags := &cpumap.Tags{}
	options := textOptions(out, f.color.value)
	return s.Run(in, func(r planio.Result) error {
		step++
		m := cpumap.FromNode(s.Node)
		m.Tags = tags
		return m.Step(out, options, step, r.Lines())
	})
}
