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

// A Command is a program that runs in its own group. The group counts the CPU use of the program and its child processes.
type Command struct {
	Group   *cgroup.Group
	tree    *cgroup.Tree
	process *os.Process
}

// Prepare starts a program in a new group of the tree, and stops the program before its first instruction; Run continues
// it. The group has no quota. Its CPUs are the CPUs that this process can use. Prepare locks the calling goroutine to its thread until Run.
func Prepare(tree *cgroup.Tree, path string, args []string) (*Command, error) {
	cpus, err := usableCPUs(tree)
	if err != nil {
		return nil, err
	}
	if err := removeEnded(tree); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // only the thread that started the program can use ptrace on it
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
	_, err = unix.Wait4(process.Pid, &status, 0, nil) // wait for the stop after execve
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

// groupName is the prefix of the names of the groups that Prepare creates. The rest of a name is the program's PID.
const groupName = "record-"

// removeEnded removes the groups of earlier programs if these groups have no processes. Such groups remain if a Recorder
// was killed.
func removeEnded(tree *cgroup.Tree) error {
	names, err := tree.Groups()
	for _, name := range names {
		if !strings.HasPrefix(name, groupName) {
			continue
		}
		if removeErr := tree.Group(name).Remove(); !errors.Is(removeErr, cgroup.ErrBusy) {
			err = errline.Join(err, removeErr)
		}
	}
	return err
}

// usableCPUs returns the CPUs that Candor's groups can have and that are in this process's affinity. The recorded
// program must stay on the CPUs of this process, because the machine's remaining CPUs can be exclusive CPUs of containers.
func usableCPUs(tree *cgroup.Tree) (cpuset.Set, error) {
	cpus, _, err := tree.Effective()
	if err != nil {
		return cpus, err
	}
	affinity, err := procfs.Affinity(0)
	if err != nil {
		return cpus, os.NewSyscallError("sched_getaffinity", err)
	}
	cpus = cpus.Intersect(affinity)
	if cpus.IsEmpty() {
		return cpus, errors.New("none of the CPUs that this process may use is in the groups' cpuset")
	}
	return cpus, nil
}

// Run runs the program to its end and returns its exit code. If a signal has killed the program, the exit code is 128 plus
// the number of the signal, as in shells. Run forwards SIGTERM and SIGHUP from this process to the program.
func (c *Command) Run() (code int, err error) {
	// SIGINT is not forwarded: Ctrl-C on a terminal sends it to the program too.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGHUP)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, unix.SIGINT)
	defer signal.Stop(interrupts)
	defer func() { signal.Stop(signals); close(signals) }()
	go func() {
		for s := range signals {
			_ = c.process.Signal(s) // fails only if the program has ended
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

// Remove removes the program's group, and Candor's parent group if it is empty. It returns cgroup.ErrBusy if the program's
// group still has processes.
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
