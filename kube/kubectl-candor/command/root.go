package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Version and Image are set by the linker. Version is the version of this program. Image is the image of candor of the same
// version.
var (
	Version = ""
	Image   = ""
)

// versionString returns the version of this program.
func versionString() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

const rootLong = `Show the CPUs of a cluster's containers, and whether pods get the CPUs that they need.

Start with kubectl candor audit. It lists the containers of all nodes that see more CPUs
than they have. It needs no installation, and changes no container.

The commands use the cluster and the user of kubectl, and accept the flags of kubectl.`

const rootExample = `  # List containers that see more CPUs than they have, before Candor is installed
  kubectl candor audit

  # Show the free CPUs of each node
  kubectl candor nodes

  # Show all nodes in a browser
  kubectl candor web

  # Explain the CPUs of a pod, or why it waits
  kubectl candor why web-0 -n shop

  # Show whether 20 more replicas fit
  kubectl candor fits -f deployment.yaml --replicas 20`

// newRoot returns the command tree.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-candor",
		Short:         "Show the CPUs of a cluster's containers",
		Long:          rootLong,
		Example:       rootExample,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl candor"},
		SilenceUsage:  true, // errors are a single line
		SilenceErrors: true, // Run prints them
		Version:       versionString(),
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return badInput("unknown command %.60q; kubectl candor --help lists the commands", args[0])
			}
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("kubectl-candor {{.Version}}\n")
	a := newAccess(root)
	root.AddGroup(&cobra.Group{ID: groupNodes, Title: "Nodes:"}, &cobra.Group{ID: groupPods, Title: "Pods:"})
	add(root, groupNodes, newAuditCommand(a), newDoctorCommand(a), newMapCommand(a), newNodesCommand(a), newTopCommand(a), newWebCommand(a))
	add(root, groupPods, newFitsCommand(a), newPlanCommand(a), newProfileCommand(a), newWhyCommand(a))
	return root
}

// Groups of commands.
const (
	groupNodes = "nodes"
	groupPods  = "pods"
)

func add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// Run executes a command line, and returns the exit code: 0, 1 if the command failed, 2 for bad input, or 128 plus the number of
// the signal that ended the command.
func Run(args []string, in io.Reader, out, errOut io.Writer) int {
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(signals, s)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals) // a second signal ends the process at once
			cancel(&signalError{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return run(ctx, args, in, out, errOut)
}

func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	klog.LogToStderr(false) // client-go logs each attempt; the error of the command has the reason
	klog.SetOutput(io.Discard)
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetErr(errOut)
	root.SetFlagErrorFunc(flagError)
	var text bytes.Buffer // a report is written as a whole, or not at all
	root.SetOut(&text)
	cmd, err := root.ExecuteContextC(ctx)
	if _, e := out.Write(text.Bytes()); e != nil && err == nil {
		err = e
	}
	if err == nil {
		return 0
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if line := oneLine(err.Error()); line != "" {
		fmt.Fprintf(errOut, "%s: %s\n", cmd.CommandPath(), line)
	}
	return exitCode(err)
}
