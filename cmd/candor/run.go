package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

const runLong = `Run a program that sees as many CPUs as its limit, rounded up.

A sensitive program (the default) sizes itself by the CPUs that it sees. It gets whole
CPUs that no other container of Candor uses. For a limit such as 1.5, it also gets a
fraction of an additional CPU. The view of the program, which is its affinity and the
files with CPU counts, shows exactly these CPUs. A flexible program shares CPUs with the
other flexible programs.

candor passes its standard streams to the program, forwards signals to the program, and
exits with the exit code of the program. When the program ends, candor releases the
program's CPUs. If candor is killed, the program keeps its CPUs until the program has
ended and the next candor run, resize or release has released them.`

const runExample = `  candor run --cpu 1.5 -- nproc
  candor run --cpu 4 --topology single-numa --name solver -- ./solver input
  candor run --class flexible -- make -j
  candor run --class flexible --cpu 0.5 --burst auto -- ./server
  candor run --cpu 2 --on-resize signal:HUP --name web -- nginx -g 'daemon off;'`

func newRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run [--cpu N] [flags] -- COMMAND [ARG]...",
		Short:   "Run a program that sees as many CPUs as its limit",
		Long:    runLong,
		Example: runExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return missing("COMMAND", "-- COMMAND [ARG]..., such as candor run --cpu 1.5 -- nproc")
			}
			return nil
		},
	}
	f := addRunFlags(cmd)
	cmd.RunE = f.run
	return cmd
}

// run runs a command with the CPUs that the flags request. candor exits with the exit code of the
// command.
func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	a, err := f.allocation(args)
	if err != nil {
		return hostError(err)
	}
	path, err := launch.FindProgram(args[0])
	if err != nil {
		return hostError(err)
	}
	h, err := f.machine.open(cmd)
	if err != nil {
		return err
	}
	defer h.Close()
	left := func(err error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "candor: %s; %s\n", errorLine(err), whatThen(err))
	}
	code, err := launch.Run(h, a, launch.Program{Path: path, Args: args, SetEnv: f.env.isSet, Named: f.env.named, OnLeftover: left})
	if err != nil {
		return hostError(err)
	}
	if code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// runFlags are the flags of candor run.
type runFlags struct {
	*pflag.FlagSet
	machine *hostFlags
	asked   host.Allocation
	memory  *memoryFlags
	view    *choice
	env     envFlag
}

func addRunFlags(cmd *cobra.Command) *runFlags {
	f := &runFlags{FlagSet: cmd.Flags(), machine: addHostFlags(cmd)}
	f.SetInterspersed(false) // words after the command's name belong to the command
	a := &f.asked
	f.Var((*milliFlag)(&a.Limit), "cpu", "limit, such as 2, 1.5 or 1500m; optional for flexible programs")
	f.Var((*milliFlag)(&a.Guarantee), "request", "guarantee of a flexible program (default: its limit)")
	wordFlag(cmd, &a.Class, classWords, "class", "", "class: sensitive programs count CPUs, flexible programs share them")
	wordFlag(cmd, &a.Policy, policyWords, "policy", "", "strict refuses a container that would see more CPUs than its limit, rounded up")
	wordFlag(cmd, &a.Topology, topologyWords, "topology", "", "topology policy; prefer selects CPUs close together if possible")
	f.DurationVar(&a.Period, "period", bandwidth.DefaultPeriod, "period of the quota, 1ms to 1s")
	wordFlag(cmd, &a.Burst, spec.BurstWords, "burst", "", "later use of unused quota; a time such as 20ms sets the kernel's burst buffer")
	f.BoolVar(&a.Mems, "mems", false, "use memory of the CPUs' NUMA nodes only")
	f.StringVar(&a.ID, "name", "", "container name (default: command name with random letters)")
	f.memory = addMemoryFlags(cmd, "memory limit, such as 512m or 2g (default: none)")
	f.view = &choice{"", spec.ViewWords}
	wordFlag(cmd, f.view, f.view.of, "view", "", "files in /proc and /sys of the container (default for sensitive programs: full)")
	f.Var(&f.env, "env", "also set GOMAXPROCS, GOMEMLIMIT and others; =NODE_OPTIONS: also this variable")
	f.Lookup("env").NoOptDefVal = "true"
	wordFlag(cmd, &a.Helpers, spec.HelpersWords, "helpers", "", "accounting of helper processes such as log copiers (docs/ledger.md)")
	f.StringVar(&a.OnResize, "on-resize", "none", "notification of a resize: signal:HUP, exec:COMMAND or none")
	return f
}

// allocation returns the allocation that the command line describes.
func (f *runFlags) allocation(args []string) (host.Allocation, error) {
	a := f.asked
	if err := checkLimit(&a, f.Changed("request")); err != nil {
		return a, err
	}
	var err error
	if a.Memory, err = f.memory.request(f.FlagSet); err != nil {
		return a, err
	}
	a.View = viewOf(f.view.value, a.Class)
	a.Command = state.ProgramName(args[0])
	if !f.Changed("name") {
		a.ID = nameFor(args[0])
	}
	return a, a.Check()
}

// whatThen describes the fate of CPUs that could not be released.
func whatThen(err error) string {
	if errors.Is(err, host.ErrPopulated) {
		return "its CPUs are kept until they end"
	}
	return "the next operation gives its CPUs back"
}

// checkLimit refuses limits and guarantees that the class does not allow. It replaces a guarantee of 0 by NoGuarantee.
func checkLimit(a *host.Allocation, hasRequest bool) error {
	sensitive := a.Class == hybrid.Sensitive
	switch {
	case sensitive && a.Limit == 0:
		return missing("--cpu", fmt.Sprintf("a limit of %v or more for a sensitive program; or use --class flexible", hybrid.MinLimit))
	case sensitive && hasRequest:
		return badInput("--request is for flexible programs; a sensitive one is guaranteed its limit")
	case a.Limit != 0 && a.Guarantee > a.Limit:
		return badInput("--request %v is more than --cpu %v", a.Guarantee, a.Limit)
	}
	if hasRequest && a.Guarantee == 0 { // also without a limit: a resize can set a limit
		a.Guarantee = hybrid.NoGuarantee
	}
	return nil
}

// viewOf returns the requested view, or the default of the class.
func viewOf(asked string, class hybrid.Class) spec.View {
	if asked != "" {
		return spec.View(asked)
	}
	return spec.DefaultView(class)
}

// nameFor derives a container's name from its command, with random letters.
func nameFor(command string) string {
	base := cgroup.CleanName(filepath.Base(command))
	if base == "" {
		base = "program"
	}
	name := base[:min(len(base), 40)] + "-" + strings.ToLower(rand.Text()[:5])
	if cgroup.CheckName(name) != nil { // for example cpu.sh: the kernel's files also begin with "cpu."
		name = strings.ReplaceAll(name, ".", "-")
	}
	return name
}

// shorten cuts a text to a number of runes.
func shorten(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}

// newInternalExecCommand returns the hidden command that executes the program of candor run in its cgroup (launch.RunHelper).
func newInternalExecCommand() *cobra.Command {
	return &cobra.Command{
		Use:                host.HelperCommand,
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.ExactArgs(1),
		RunE:               func(_ *cobra.Command, args []string) error { return hostError(launch.RunHelper(args[0])) },
	}
}
