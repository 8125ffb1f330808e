package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
	"github.com/candor-project/candor/host"
)

// completeNames completes the names of this machine's containers. Where they
// cannot be read the shell gets none: a completion has no place for errors.
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

// takesName lets the shell complete the name that commands take.
func takesName(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.ValidArgsFunction = completeNames
	}
	return commands
}

// oneName accepts exactly one argument, the name of a container.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return badInput("%s: want the name of one container, got %d arguments", cmd.CommandPath(), len(args))
	}
	if strings.Contains(args[0], "/") { // a pod's container: only those that there are have names
		return nil
	}
	if err := cgroup.CheckName(args[0]); err != nil {
		return badInput("%v", err)
	}
	return nil
}

// named returns the containers with a name: the container with this ID, otherwise the containers with this name in their pods.
// pod/container and container are short forms of namespace/pod/container.
func named(s *host.Snapshot, name string) (meant []*host.Grant) {
	for i := range s.Grants {
		g := &s.Grants[i]
		if g.ID == name {
			return []*host.Grant{g}
		}
		if strings.HasSuffix("/"+g.Engine.Name, "/"+name) {
			meant = append(meant, g)
		}
	}
	return meant
}

// nameFrom is the name by which people and commands know a container: that in its pod, if no other
// container has it too, as those of a pod and its successor have.
func nameFrom(s *host.Snapshot, g *host.Grant) string {
	if g.Engine.Name == "" || len(named(s, g.Engine.Name)) > 1 {
		return g.ID
	}
	return cpumap.Clean(g.Engine.Name)
}

// grantNamed returns the only container with a name.
func grantNamed(s *host.Snapshot, name string) (*host.Grant, error) {
	meant := named(s, name)
	switch len(meant) {
	case 0:
		return s.Grant(name) // returns the reason
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
	return nil, badInput("%q is the name of %d containers: want one of %s", name, len(meant), strings.Join(names, ", "))
}

// idNamed is the ID of the container that a name means. A name that no container of the state has is
// left to the operation, which may find it elsewhere.
func idNamed(h *host.Host, name string) (string, error) {
	s, err := h.Snapshot()
	if err != nil || len(named(s, name)) == 0 {
		return name, nil
	}
	g, err := grantNamed(s, name)
	if err != nil {
		return "", err
	}
	return g.ID, nil
}
