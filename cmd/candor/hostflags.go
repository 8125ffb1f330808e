package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/engine/nri"
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

// addHostFlags adds the flags of hostFlags, with environment variables as defaults.
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
		"parent cgroup (default: /candor or candor.slice; $CANDOR_CGROUP_PARENT)")
	wordFlag(cmd, driver, driver.of, "cgroup-driver", "", "cgroup driver ($CANDOR_CGROUP_DRIVER)")
	return driver
}

// nodeStateDir returns the state directory that candor nri uses if it is started without --state-dir: stateDir in the file
// config, or the default. A missing file is not an error. A user other than root with $XDG_RUNTIME_DIR has a default state
// directory of its own. nodeStateDir then returns that directory and does not read config, because candor nri runs as root.
func nodeStateDir(config string) (string, error) {
	usual := host.DefaultStateDir()
	if os.Geteuid() != 0 && os.Getenv("XDG_RUNTIME_DIR") != "" {
		return usual, nil
	}
	c, err := nri.LoadConfig(config)
	if errors.Is(err, fs.ErrNotExist) {
		return usual, nil
	}
	if err != nil {
		return usual, err
	}
	return cmp.Or(c.StateDir, usual), nil
}

// useNodeStateDir sets the state directory of a command that concerns candor nri: the directory of --state-dir or
// $CANDOR_STATE_DIR. Without both, it is the directory that candor nri uses with the configuration file config.
func (f *hostFlags) useNodeStateDir(cmd *cobra.Command, config string) error {
	if cmd.Flags().Changed("state-dir") || os.Getenv("CANDOR_STATE_DIR") != "" {
		return nil
	}
	dir, err := nodeStateDir(config)
	if err != nil {
		return badInput("cannot read stateDir: %w; correct the file, or use --state-dir", err)
	}
	f.options.StateDir = dir
	return nil
}

// isServiceState reports whether dir is the state directory of candor-nri.service. config is the configuration file of the
// service. If it is missing or invalid, isServiceState assumes that the service uses the default directory of root. If dir is "",
// it is the default directory of this user.
func isServiceState(dir, config string) bool {
	service := host.SystemStateDir
	if c, err := nri.LoadConfig(config); err == nil {
		service = cmp.Or(c.StateDir, service)
	}
	return host.IsSameStateDir(cmp.Or(dir, host.DefaultStateDir()), service)
}

// arguments returns the flags with which another process uses the same state and cgroups.
func (f *hostFlags) arguments() []string {
	arguments := []string{"--state-dir", f.options.StateDir, "--config", f.options.Config, "--cgroup-driver", f.driver.value}
	if f.options.Cgroup.Parent != "" {
		arguments = append(arguments, "--cgroup-parent", f.options.Cgroup.Parent)
	}
	return arguments
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
		return nil, &exitError{exitBadInput, err} // for example a state directory that cannot be used
	}
	return h, nil
}

// openToLook opens this machine read-only. Users without any rights can do this.
func (f *hostFlags) openToLook(cmd *cobra.Command) (*host.Host, error) {
	f.options.Cgroup.ReadOnly = true
	return f.open(cmd)
}

// snapshot opens this machine read-only and reads its state. It prints a warning if cgroups of Candor are not in the state.
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

// hostError returns err with its exit code: the code of a launch.ExecError, or the code for bad input if the caller caused the
// error.
func hostError(err error) error {
	var refusal *hybrid.Refusal
	var program *launch.ExecError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &program):
		return &exitError{program.Code, err}
	case errors.As(err, &refusal), isOneOf(err, host.ErrBadSpec, host.ErrPopulated, host.ErrInside, host.ErrBadOptions, host.ErrGivingBack,
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
	slog.Handler // nil: WithGroup and WithAttrs are not used
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	separator := ": "
	var write func(slog.Attr)
	write = func(a slog.Attr) {
		if a.Value.Kind() == slog.KindGroup { // a group without a key, such as the name and the ID of a container
			for _, member := range a.Value.Group() {
				write(member)
			}
			return
		}
		fmt.Fprintf(&line, "%s%s %v", separator, a.Key, cmp.Or(a.Value.String(), "none")) // for example an empty CPU set
		separator = ", "
	}
	r.Attrs(func(a slog.Attr) bool { write(a); return true })
	_, err := fmt.Fprintln(h.out, "candor:", errorLine(errors.New(line.String())))
	return err
}

// completeNames completes the names of this machine's containers. If candor cannot read them, it completes nothing, because
// the shell does not show errors of a completion.
func completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	look := &cobra.Command{}
	machine := addHostFlags(look)
	cmd.Flags().Visit(func(set *pflag.Flag) { // use the flags of the command
		if f := look.Flags().Lookup(set.Name); f != nil {
			_ = f.Value.Set(set.Value.String())
		}
	})
	h, err := machine.openToLook(look)
	if err != nil {
		return nil, none
	}
	defer h.Close()
	snapshot, err := h.Snapshot()
	if err != nil {
		return nil, none
	}
	var names []string
	for i := range snapshot.Grants {
		g := &snapshot.Grants[i]
		names = append(names, fmt.Sprintf("%s\t%s, limit %s", nameFrom(snapshot, g), g.Class, limit(g.Limit)))
	}
	return names, none
}

// takesName makes the shell complete container names as arguments of the commands.
func takesName(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.ValidArgsFunction = completeNames
	}
	return commands
}

// oneName accepts exactly one argument, the name of a container.
func oneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return badInput("%d arguments: must be 1, the NAME of a container", len(args))
	}
	if strings.Contains(args[0], "/") { // a container in a pod; the lookup in the state rejects a wrong name
		return nil
	}
	if err := cgroup.CheckName(args[0]); err != nil {
		return badInput("%v", err)
	}
	return nil
}

// named returns the containers with a name. The name can have one of these forms. If several forms match, the first one counts:
//
//   - an ID of Candor, or a whole ID of an engine
//   - the engine's name; for a container in a pod namespace/pod/container, pod/container or container
//   - a pod: namespace/pod or pod
//   - the beginning of an ID that an engine has generated, at least minPrefix characters
func named(s *host.Snapshot, name string) (meant []*host.Grant) {
	for _, isNamed := range []func(*host.Grant) bool{
		func(g *host.Grant) bool { return g.ID == name || isWholeID(g, name) },
		func(g *host.Grant) bool { return strings.HasSuffix("/"+g.Engine.Name, "/"+name) },
		func(g *host.Grant) bool {
			in := g.Engine.DisplayName()
			return in.Pod != "" && (name == in.Pod || name == in.Namespace+"/"+in.Pod)
		},
		func(g *host.Grant) bool {
			id, isGenerated := engineID(g)
			return isGenerated && len(name) >= minPrefix && !slices.Contains(s.Strays, name) &&
				(strings.HasPrefix(id, name) || strings.HasPrefix(g.ID, name))
		},
	} {
		for i := range s.Grants {
			if g := &s.Grants[i]; isNamed(g) {
				meant = append(meant, g)
			}
		}
		if meant != nil {
			return meant
		}
	}
	return nil
}

// minPrefix is the minimum length of a name that can be the beginning of an ID. A shorter name is more likely the name of a container that
// has ended.
const minPrefix = 4

// isWholeID reports whether name is the whole ID of a container in its engine. Candor's ID of a Docker container can be only the
// beginning of Docker's ID.
func isWholeID(g *host.Grant, name string) bool {
	id, isGenerated := engineID(g)
	return isGenerated && (id == name || len(name) == wholeID && shortContainerID.MatchString(name) && strings.HasPrefix(name, id))
}

const wholeID = 64 // digits

// nameFrom returns a unique name of a container: the engine's name or, if another container has the same name, the ID. For
// example, a pod and its successor have the same name.
func nameFrom(s *host.Snapshot, g *host.Grant) string {
	if meant := named(s, g.Engine.Name); g.Engine.Name == "" || len(meant) != 1 || meant[0].ID != g.ID {
		return g.ID
	}
	return cpumap.Clean(g.Engine.Name)
}

// grantNamed returns the container with a name. It returns an error if no container or several containers have the name.
func grantNamed(s *host.Snapshot, name string) (*host.Grant, error) {
	meant := named(s, name)
	switch len(meant) {
	case 0:
		return s.Grant(name) // the error states the reason
	case 1:
		return meant[0], nil
	}
	const most = 5
	var names []string
	for _, g := range meant[:min(len(meant), most)] {
		names = append(names, nameFrom(s, g))
	}
	if more := len(meant) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return nil, badInput("%q is the name of %d containers: use one of %s", name, len(meant), strings.Join(names, ", "))
}

// idNamed returns the ID of the container with a name. If no container of the state has the name, idNamed returns the name
// itself: the operation can also find a container that has a cgroup but is not in the state.
func idNamed(h *host.Host, name string) (string, error) {
	s, err := h.Snapshot()
	if err != nil || len(named(s, name)) == 0 {
		return name, nil //nolint:nilerr // the operation reads the state again and returns its error
	}
	g, err := grantNamed(s, name)
	if err != nil {
		return "", err
	}
	return g.ID, nil
}
