package record

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/procfs"
)

// A Command is a program in a group of its own, so that all it uses is counted there.
type Command struct {
	Group   *cgroup.Group
	tree    *cgroup.Tree
	process *os.Process
}

// Prepare starts a program, stopped before its first instruction, in a new group of the
// tree: nothing limits it there but the CPUs that this process may use. The calling goroutine keeps its thread until Run.
func Prepare(tree *cgroup.Tree, path string, args []string) (*Command, error) {
	cpus, err := ownCPUs(tree)
	if err != nil {
		return nil, err
	}
	if err := sweep(tree); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // a program is traced by a thread
	process, err := os.StartProcess(path, args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	c := &Command{tree.Group(groupName + strconv.Itoa(process.Pid)), tree, process}
	var status unix.WaitStatus
	_, err = unix.Wait4(process.Pid, &status, 0, nil) // until it has become the program
	if err == nil {
		err = c.Group.Create(cgroup.Settings{CPUs: cpus}, process.Pid)
	}
	if err != nil {
		process.Kill()
		process.Wait()
		runtime.UnlockOSThread()
		return nil, errline.Join(err, c.Remove())
	}
	return c, nil
}

// groupName is what the names of programs' groups begin with.
const groupName = "record-"

// sweep removes the groups of programs that have ended since, or whose recorder was killed.
func sweep(tree *cgroup.Tree) error {
	names, err := tree.Groups()
	for _, name := range names {
		if !strings.HasPrefix(name, groupName) {
			continue
		}
		if one := tree.Group(name).Remove(); !errors.Is(one, cgroup.ErrBusy) {
			err = errline.Join(err, one)
		}
	}
	return err
}

// ownCPUs are the CPUs of the tree that this process may use: a recording is no way out of a cpuset, onto CPUs that
// somebody else has for himself.
func ownCPUs(tree *cgroup.Tree) (cpuset.Set, error) {
	cpus, _, err := tree.Effective()
	if err != nil {
		return cpus, err
	}
	own, err := procfs.Affinity(0)
	if err != nil {
		return cpus, os.NewSyscallError("sched_getaffinity", err)
	}
	cpus = cpus.Intersect(own)
	if cpus.IsEmpty() {
		return cpus, errors.New("none of the CPUs that this process may use is in the groups' cpuset")
	}
	return cpus, nil
}

// Run lets the program run to its end and returns its exit code, as shells count: 128 and
// the number of the signal that ended it. Signals that come meanwhile are the program's.
func (c *Command) Run() (code int, err error) {
	// Ctrl-C on a terminal reaches the program by itself.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGHUP)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, unix.SIGINT)
	defer signal.Stop(interrupts)
	defer func() { signal.Stop(signals); close(signals) }()
	go func() {
		for s := range signals {
			_ = c.process.Signal(s) // it has ended, or it gets it
		}
	}()
	err = os.NewSyscallError("ptrace", unix.PtraceDetach(c.process.Pid))
	runtime.UnlockOSThread()
	if err != nil {
		c.process.Kill()
	}
	state, waited := c.process.Wait()
	if err = errline.Join(err, waited); err != nil {
		return 0, err
	}
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// Remove takes the program's group away. It is cgroup.ErrBusy where the program has left processes.
func (c *Command) Remove() error {
	err := c.Group.Remove()
	if err != nil {
		return err
	}
	if err := c.tree.Remove(); err != nil && !errors.Is(err, cgroup.ErrBusy) {
		return err
	}
	return nil
}
