package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// hostFlags are the flags of the subcommands that read or change the containers of this machine.
type hostFlags struct {
	options host.Options
	driver  *choice
	verbose bool
}

// defaultHostOptions returns the options from the environment, with the usual defaults.
func defaultHostOptions() (o host.Options, driver string) {
	o.StateDir = cmp.Or(os.Getenv("CANDOR_STATE_DIR"), host.DefaultStateDir())
	o.Config = cmp.Or(os.Getenv("CANDOR_CONFIG"), host.DefaultConfig)
	o.Cgroup.Parent = os.Getenv("CANDOR_CGROUP_PARENT")
	return o, cmp.Or(os.Getenv("CANDOR_CGROUP_DRIVER"), string(cgroup.Auto))
}

// addHostFlags adds them, with environment variables as defaults.
func addHostFlags(cmd *cobra.Command) *hostFlags {
	options, _ := defaultHostOptions()
	f := &hostFlags{options: options}
	flags := cmd.Flags()
	flags.StringVar(&f.options.StateDir, "state-dir", options.StateDir, "state directory ($CANDOR_STATE_DIR)")
	flags.StringVar(&f.options.Config, "config", options.Config, "options file of this machine ($CANDOR_CONFIG)")
	f.driver = addGroupFlags(cmd, &f.options.Cgroup)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "also print repairs and cleanups of the state")
	return f
}

// addGroupFlags adds the flags that select Candor's parent cgroup and the cgroup driver.
func addGroupFlags(cmd *cobra.Command, o *cgroup.Options) (driver *choice) {
	options, named := defaultHostOptions()
	driver = &choice{named, []string{string(cgroup.Auto), string(cgroup.Cgroupfs), string(cgroup.Systemd)}}
	cmd.Flags().StringVar(&o.Parent, "cgroup-parent", options.Cgroup.Parent,
		"parent cgroup: /candor or candor.slice ($CANDOR_CGROUP_PARENT)")
	wordFlag(cmd, driver, driver.of, "cgroup-driver", "", "cgroup driver ($CANDOR_CGROUP_DRIVER)")
	return driver
}

// open opens this machine to change its containers.
func (f *hostFlags) open(cmd *cobra.Command) (*host.Host, error) {
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelInfo
	}
	f.options.Log = slog.New(&lineHandler{out: cmd.ErrOrStderr(), level: level})
	f.options.Cgroup.Driver = cgroup.Driver(f.driver.value)
	h, err := host.Open(f.options)
	if err != nil {
		return nil, &exitError{exitBadInput, err} // a place that cannot be used
	}
	return h, nil
}

// openToLook opens this machine read-only, which requires no rights.
func (f *hostFlags) openToLook(cmd *cobra.Command) (*host.Host, error) {
	f.options.Cgroup.ReadOnly = true
	return f.open(cmd)
}

// snapshot opens this machine read-only, reads its state, and reports cgroups outside the state.
func (f *hostFlags) snapshot(cmd *cobra.Command) (*host.Host, *host.Snapshot, error) {
	h, err := f.openToLook(cmd)
	if err != nil {
		return nil, nil, err
	}
	s, err := h.Snapshot()
	if err != nil {
		h.Close()
		return nil, nil, hostError(err)
	}
	sayStrays(cmd, s)
	return h, s, nil
}

// hostError gives the errors that are the caller's fault their exit code.
func hostError(err error) error {
	var refusal *hybrid.Refusal
	var program *launch.ExecError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &program):
		return &exitError{program.Code, err}
	case errors.As(err, &refusal), isOneOf(err, host.ErrBadSpec, host.ErrPopulated, host.ErrInside, host.ErrBadOptions,
		state.ErrBadDir, cgroup.ErrNotDelegated, cgroup.ErrOwned):
		return &exitError{exitBadInput, err}
	default:
		return err
	}
}

func isOneOf(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}

// A lineHandler writes each log record as a single line, in the form of candor's errors.
type lineHandler struct {
	out          io.Writer
	level        slog.Level
	slog.Handler // groups and bound attributes are not used
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	separator := ": "
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&line, "%s%s %v", separator, a.Key, cmp.Or(a.Value.String(), "none")) // an empty set of CPUs
		separator = ", "
		return true
	})
	_, err := fmt.Fprintln(h.out, "candor:", errorLine(errors.New(line.String())))
	return err
}
