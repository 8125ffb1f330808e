package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/internal/errline"
)

const recordLong = `Record the CPU use of cgroups at short intervals, by default a hundred times per second:
CPU time, throttled periods, throttled time, and bursts. Other commands can read the
recording while it grows. If candor is killed, the recording loses at most its last
second.

Select a cgroup by its path below the mount point, by a process in it, or by the name of
a container of Candor, Docker, containerd, CRI-O or Podman; --all records every cgroup
with processes. With COMMAND, candor runs the command in a new cgroup without limits,
records this cgroup, and exits with the exit code of the command. A COMMAND such as
docker run is refused, because its container is in another cgroup.

The kernel counts in ticks, 4 ms on most machines: in a window of 10 ms, a thread
that is always busy seems to use 0.8 or 1.2 CPUs.`

const recordExample = `  candor record -o web.usage --container web --duration 10m
  candor record -o pod.usage --cgroup /kubepods/pod1/web
  candor record -o build.usage -- make -j4
  candor record -o node.usage --all --interval 100ms
  candor usage web.usage`

// recordFlags are the flags of candor record.
type recordFlags struct {
	machine            *hostFlags
	interval, duration time.Duration
	out                string
	cgroups            []string
	pid                int
	container          string
	all                bool
}

func newRecordCommand() *cobra.Command {
	f := &recordFlags{}
	cmd := &cobra.Command{
		Use:     "record -o FILE (--cgroup PATH | --pid N | --container NAME | --all | -- COMMAND [ARG]...)",
		Short:   "Record the CPU use of containers at 10 ms",
		Long:    recordLong,
		Example: recordExample,
		Args:    f.check,
		RunE:    f.run,
	}
	f.machine = addHostFlags(cmd)
	flags := cmd.Flags()
	flags.SetInterspersed(false) // words after the command's name belong to the command
	flags.DurationVar(&f.interval, "interval", 10*time.Millisecond, "time between samples, 1ms to 10s")
	flags.DurationVar(&f.duration, "duration", 0, "length of the recording; 0: until the cgroups end or Ctrl-C")
	flags.StringVarP(&f.out, "output", "o", "", "file to write")
	flags.StringArrayVar(&f.cgroups, "cgroup", nil, "path of a cgroup, such as /kubepods/pod1/web; repeatable")
	flags.IntVar(&f.pid, "pid", 0, "ID of a process whose cgroup to record")
	flags.StringVar(&f.container, "container", "", "name or ID of a container of Candor or of an engine")
	flags.BoolVar(&f.all, "all", false, "record all cgroups with processes, including cgroups that are created later")
	err := cmd.RegisterFlagCompletionFunc("container", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return completeNames(cmd, nil, begun)
	})
	if err != nil {
		panic(err) // the flag does not exist: a bug in this program
	}
	return cmd
}

// check refuses invalid combinations and values.
func (f *recordFlags) check(cmd *cobra.Command, args []string) error {
	asked := 0
	for _, is := range []bool{len(f.cgroups) > 0, cmd.Flags().Changed("pid"), f.container != "", f.all, len(args) > 0} {
		if is {
			asked++
		}
	}
	switch {
	case f.out == "":
		return missing("--output", "the file to write")
	case asked == 0:
		return missing("target", "one of --cgroup, --pid, --container, --all and -- COMMAND")
	case asked > 1:
		return badInput("%d targets: must be one of --cgroup, --pid, --container, --all and -- COMMAND", asked)
	case f.duration < 0:
		return badInput("--duration %v: must be 0 or more", f.duration)
	case f.duration > 0 && f.duration < f.interval:
		return badInput("--duration %v: must be at least one --interval, %v", f.duration, f.interval)
	}
	if err := record.CheckInterval(f.interval); err != nil {
		return badInput("--%w", err)
	}
	return nil
}

func (f *recordFlags) run(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return f.runCommand(cmd, args)
	}
	tree, err := cgroup.Open(cgroup.Options{Parent: f.machine.options.Cgroup.Parent, Driver: cgroup.Driver(f.machine.driver.value), ReadOnly: true})
	if err != nil {
		return badInput("%w", err)
	}
	defer tree.Close()
	groups, err := f.open(cmd, tree)
	if err != nil {
		return err
	}
	defer groups.Close()
	file, err := os.Create(f.out)
	if err != nil {
		return badInput("%w", err)
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	began := time.Now()
	err = f.record(ctx, groups, file)
	warnForeign(cmd, groups)
	if err == nil && f.duration > 0 && ctx.Err() != nil {
		return stoppedError(ctx, "%v of %v recorded", time.Since(began).Round(time.Second), f.duration)
	}
	return err
}

// open opens the groups that the flags ask for.
func (f *recordFlags) open(cmd *cobra.Command, tree *cgroup.Tree) (*record.Groups, error) {
	if f.all {
		return record.OpenEvery(tree)
	}
	targets, err := f.targets(cmd, tree)
	if err != nil {
		return nil, err
	}
	groups, err := record.Open(tree, targets...)
	if err != nil {
		return nil, badInput("%w", err)
	}
	return groups, nil
}

// targets returns the groups that the flags name.
func (f *recordFlags) targets(cmd *cobra.Command, tree *cgroup.Tree) (list []record.Target, err error) {
	if f.container != "" {
		target, err := f.containerTarget(cmd, tree)
		return []record.Target{target}, err
	}
	paths := f.cgroups
	if cmd.Flags().Changed("pid") {
		path, err := tree.PathOf(f.pid)
		switch {
		case err != nil:
			return nil, badInput("--pid %d: %w", f.pid, err)
		case path == "/":
			return nil, badInput("--pid %d: the process is in the root cgroup, with all other processes: use a process in its own cgroup, or candor record -- COMMAND", f.pid)
		}
		paths = []string{path}
	}
	for _, path := range paths {
		if err := cgroup.CheckPath(path); err != nil {
			return nil, badInput("--cgroup: %w", err)
		}
		list = append(list, record.Target{Name: path, Group: path})
	}
	return list, nil
}

// containerTarget returns the container that --container names: a container of Candor, or a container of an engine. The name in
// the recording is the container's display name, even if --container has a part of it.
func (f *recordFlags) containerTarget(cmd *cobra.Command, tree *cgroup.Tree) (record.Target, error) {
	h, snapshot, err := f.machine.snapshot(cmd)
	if err != nil {
		return record.Target{}, err
	}
	defer h.Close()
	all, err := audit.Read(tree)
	if err != nil && len(named(snapshot, f.container)) == 0 {
		return record.Target{}, err
	}
	return targetNamed(snapshot, withoutGrant(all, snapshot.Grants), f.container)
}

// targetNamed returns the container with a name among the containers of Candor and the foreign containers. The target's group is
// the name of the cgroup if Candor created it, or the path of the cgroup if an engine created it.
func targetNamed(s *host.Snapshot, foreign []audit.Container, name string) (record.Target, error) {
	every := &host.Snapshot{Grants: slices.Clone(s.Grants), Strays: s.Strays}
	for i := range foreign {
		g := host.Grant{Engine: host.Engine{Name: foreign[i].Name, Cgroup: foreign[i].Group}}
		g.ID = foreign[i].ID
		every.Grants = append(every.Grants, g)
	}
	if len(named(every, name)) == 0 {
		return record.Target{}, badInput("--container %.100q: no such container: candor audit --all lists the running containers; or use --cgroup PATH or --pid N", name)
	}
	g, err := grantNamed(every, name)
	if err != nil {
		return record.Target{}, err
	}
	return record.Target{Name: nameFrom(every, g), Group: cmp.Or(g.Engine.Cgroup, g.ID)}, nil
}

// record records, and closes the file.
func (f *recordFlags) record(ctx context.Context, groups *record.Groups, file *os.File) error {
	err := groups.Record(ctx, file, f.interval, f.duration)
	if errors.Is(err, record.ErrAllEnded) {
		err = nil
	}
	return errline.Join(err, file.Close())
}

// warnForeign writes a line if other processes used the CPUs of the recorded groups.
func warnForeign(cmd *cobra.Command, groups *record.Groups) {
	if groups != nil && groups.Interference != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "candor:", groups.Interference.Warning())
	}
}

// runCommand runs and records a command. candor exits with the exit code of the command.
func (f *recordFlags) runCommand(cmd *cobra.Command, args []string) error {
	if call := starterIn(args); call != "" {
		return badInput("%s starts its program in another cgroup, so the recording would be almost empty; start the program first, then record it with --container NAME or --cgroup PATH", call)
	}
	path, err := launch.FindProgram(args[0])
	if err != nil {
		return hostError(err)
	}
	tree, err := cgroup.Open(cgroup.Options{Parent: recordParent, Driver: cgroup.Cgroupfs})
	if err != nil {
		return badInput("%w", err)
	}
	defer tree.Close()
	file, err := os.Create(f.out)
	if err != nil {
		return badInput("%w", err)
	}
	program, err := record.Prepare(tree, path, args)
	if err != nil {
		file.Close()
		return err
	}
	groups, err := record.Open(tree, record.Target{Name: shorten(strings.Join(args, " "), 100), Group: program.Group.Name()})
	ctx, stop := context.WithCancel(cmd.Context())
	recorded := make(chan error, 1)
	if err == nil {
		groups.Watch() // takes time, in which the program must not run yet
		go func() { recorded <- f.record(ctx, groups, file) }()
	} else {
		recorded <- errline.Join(err, file.Close())
	}
	began := time.Now()
	code, err := program.Run()
	if used, readErr := tree.ReadUsage(program.Group.Name()); readErr == nil {
		warnEmpty(cmd.ErrOrStderr(), used.CPU, time.Since(began), f.out)
	}
	stop()
	err = errline.Join(err, <-recorded)
	warnForeign(cmd, groups)
	removed := program.Remove()
	if errors.Is(removed, cgroup.ErrBusy) { // remaining processes continue to run in the cgroup
		fmt.Fprintf(cmd.ErrOrStderr(), "candor: %s\n", errorLine(removed))
		removed = nil
	}
	if err = errline.Join(err, removed); err != nil {
		return err
	}
	if code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// recordParent is the parent cgroup of recorded commands. It is not Candor's parent cgroup, because the children of that cgroup
// are containers with grants.
const recordParent = "/candor-record"
