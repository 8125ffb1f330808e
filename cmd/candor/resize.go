package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/errline"
)

const resizeLong = `Change the CPU limit or the memory limit of a running container.

The CPUs, the quota and the view of the container change while it runs. Then candor
notifies the program with the method from --on-resize of candor run. Values that the
program has already read do not change: environment variables keep the old CPU count.
If the new limits do not fit, nothing changes. --memory is for programs that were started
with candor run --memory; without --memory-swap, their limit of swap stays.`

func newResizeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resize NAME [--cpu N] [--memory SIZE]",
		Short:   "Change the limits of a running container",
		Long:    resizeLong,
		Example: "  candor resize web --cpu 3.5\n  candor resize web --memory 1g",
		Args:    oneName,
	}
	machine := addHostFlags(cmd)
	var size, guarantee hybrid.Milli
	cmd.Flags().Var((*milliFlag)(&size), "cpu", "new limit, such as 2, 1.5 or 1500m; 0: no limit (flexible only)")
	cmd.Flags().Var((*milliFlag)(&guarantee), "request", "new guarantee of a flexible container (default: old --request, else new limit)")
	memoryLimits := addMemoryFlags(cmd, "new memory limit, such as 512m or 2g")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		hasCPU := cmd.Flags().Changed("cpu")
		if !hasCPU && !cmd.Flags().Changed("memory") {
			return missing("--cpu or --memory", "the new limit, such as --cpu 1.5, --cpu 1500m or --memory 512m")
		}
		if !hasCPU && cmd.Flags().Changed("request") {
			return missing("--cpu", "the new limit, such as 2, 1.5 or 1500m; --request needs --cpu")
		}
		wanted, err := memoryLimits.request(cmd.Flags())
		if err != nil {
			return hostError(err)
		}
		h, err := machine.open(cmd)
		if err != nil {
			return err
		}
		defer h.Close()
		if cmd.Flags().Changed("request") && guarantee == 0 {
			guarantee = hybrid.NoGuarantee
		}
		r := resizing{h, cmd, ""}
		if r.id, err = idNamed(h, args[0]); err != nil {
			return err
		}
		memory, err := r.resizeMemory(wanted)
		if err != nil {
			return hostError(err)
		}
		if hasCPU {
			return r.resizeCPUs(size, guarantee, memory)
		}
		_, err = io.WriteString(cmd.OutOrStdout(), memory.text)
		return err
	}
	return cmd
}

// A resizing is a call of candor resize.
type resizing struct {
	*host.Host
	cmd *cobra.Command
	id  string // of the container
}

// A memoryChange is a change of a memory limit.
type memoryChange struct {
	text string       // line with the former and the new limit; "": no change
	undo func() error // restores the former limit
}

// resizeMemory changes the memory limit, if wanted is not nil.
func (r *resizing) resizeMemory(wanted *host.MemoryRequest) (c memoryChange, err error) {
	if wanted == nil {
		return memoryChange{undo: func() error { return nil }}, nil
	}
	var swap *int64
	if !wanted.IsSwapOptional {
		swap = &wanted.Swap
	}
	before, after, undo, err := r.ResizeMemory(r.cmd.Context(), r.id, wanted.Memory, swap)
	return memoryChange{fmt.Sprintf("%s: memory %s -> %s\n", r.id, sizeText(before.Memory), sizeText(after.Memory)), undo}, err
}

// resizeCPUs changes the limit and the guarantee. If they do not fit, it undoes the change of the memory limit.
func (r *resizing) resizeCPUs(size, guarantee hybrid.Milli, memory memoryChange) error {
	before, after, err := r.Resize(r.cmd.Context(), r.id, size, guarantee)
	if err != nil {
		return errline.Join(hostError(err), memory.undo())
	}
	if _, err := io.WriteString(r.cmd.OutOrStdout(), memory.text); err != nil {
		return err
	}
	notification, err := r.Notify(r.cmd.Context(), after, r.cmd.OutOrStdout(), r.cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return writeResize(r.cmd.OutOrStdout(), before, after, notification)
}

// writeResize writes the grants before and after a resize. The name is the container's display name, also if the user has typed
// its ID or a part of the name.
func writeResize(w io.Writer, before, after *host.Grant, notification string) error {
	_, err := fmt.Fprintf(w, "%s: %s -> %s; %s\n", errorText(after.DisplayName()), holdings(before), holdings(after), notification)
	return err
}

// holdings describes the CPUs of a container: "limit 1500m, CPUs 0,3 (500m of 3)".
func holdings(g *host.Grant) string {
	return fmt.Sprintf("limit %s, %s%s", limit(g.Limit), cputext.CPUs(g.CPUs), parts(g.Fractions))
}

// parts describes the fractions of a container: " (500m of 3)".
func parts(fractions []hybrid.Fraction) string {
	if len(fractions) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(" (")
	for i, f := range fractions {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%v of %d", f.Milli, f.CPU)
	}
	return text.String() + ")"
}
