package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/engine/oci"
	"github.com/candor-project/candor/hybrid"
)

// runtimeNames are the names under which candor is an OCI runtime, with their classes.
var runtimeNames = map[string]hybrid.Class{
	"candor-runc":          hybrid.Sensitive,
	"candor-flexible-runc": hybrid.Flexible,
}

// ociHookCommand is the hidden subcommand that the real runtime calls.
const ociHookCommand = "internal-oci"

// runAsRuntime runs candor as an OCI runtime. The settings come only from the environment, because
// the command line is in the format of OCI runtimes.
func runAsRuntime(class hybrid.Class, args []string) int {
	options, driver := defaultHostOptions()
	options.Cgroup.Driver = cgroup.Driver(driver)
	for _, path := range []*string{&options.StateDir, &options.Config} {
		if whole, err := filepath.Abs(*path); err == nil {
			*path = whole
		}
	}
	w := oci.Wrapper{
		Host:    options,
		Class:   class,
		Runtime: os.Getenv("CANDOR_RUNTIME"),
	}
	// The link is resolved here, because in a hook /proc/self/exe leads to the runtime.
	if self, err := filepath.EvalSymlinks("/proc/self/exe"); err == nil {
		w.Self = []string{self, ociHookCommand}
	}
	return w.Main(args)
}

// runtimeClass returns the class for a program name; ours is false if candor is no OCI runtime
// under this name.
func runtimeClass(argv0 string) (class hybrid.Class, ours bool) {
	class, ours = runtimeNames[filepath.Base(argv0)]
	return class, ours
}

// newOCIHookCommand returns the command that the hooks of an OCI configuration call.
func newOCIHookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    ociHookCommand + " EVENT NAME [CPUS]",
		Hidden: true,
		Args:   cobra.RangeArgs(2, 3),
	}
	machine := addHostFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := runOCIHook(cmd, machine, args)
		if err != nil && oci.HasEnded(args[0]) {
			fmt.Fprintf(cmd.ErrOrStderr(), "candor: %v\n", err)
			return nil
		}
		return err
	}
	return cmd
}

func runOCIHook(cmd *cobra.Command, machine *hostFlags, args []string) error {
	cpus, err := cpuset.Parse(strings.Join(args[2:], ""))
	if err != nil {
		return badInput("%v", err)
	}
	machine.options.OnEnd = oci.RecordUsage(machine.options.StateDir) // this call can detect the end of another container
	h, err := machine.open(cmd)
	if err != nil {
		return err
	}
	defer h.Close()
	return hostError(oci.Hook(cmd.Context(), h, args[0], args[1], cpus, cmd.InOrStdin()))
}
