package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHostileNamespaceRoot runs candor in a privileged container with a cgroup namespace of its own, whose root has the
// container's processes. cgroup v2 lets no group beside processes have limits: candor writes nothing there, since an inner engine
// could start no container otherwise.
func TestHostileNamespaceRoot(t *testing.T) {
	l := newLab(t)
	if l.tree.Version() != 2 {
		t.Skip("cgroup v1 has no such rule")
	}
	container := l.parent + "-container"
	limit(t, container, 1)
	root := "/sys/fs/cgroup" + container
	before := readForest(t, container)
	within := func(group string, cmd *exec.Cmd) result {
		t.Helper()
		inner := role("container", append([]string{root, group, cmd.Path}, cmd.Args[1:]...)...)
		nested := exec.Command(inner[0], inner[1:]...)
		nested.Env = slices.Concat(l.candor().Env, []string{"CANDOR_CGROUP_PARENT=/candor"})
		return run(t, nested)
	}
	refused(t, "processes in the root", within("", l.candor("run", "--cpu", "1", "--", "true")),
		"the root of this cgroup namespace", "move them into a child first, such as /sys/fs/cgroup/init")
	before.same(t, "refused", readForest(t, container))

	engine := root + "/docker"
	if err := os.Mkdir(engine, 0o755); err != nil {
		t.Fatal(err)
	}
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(engine+"/cgroup.procs", []byte(strconv.Itoa(sleep.Process.Pid)), 0); err != nil {
		t.Errorf("an inner engine cannot start a container: %v", err)
	}
	sleep.Process.Kill()
	sleep.Wait()
	removeGroup(t, engine)

	if err := os.Mkdir(root+"/init", 0o755); err != nil {
		t.Fatal(err)
	}
	// One shell stays in the child, so that the root remains without processes.
	script := exec.Command("sh", "-c", `"$0" run --cpu 1 -- nproc; echo "exit $?"; "$0" run --cpu 2 -- true; echo "exit $?"; "$0" map --sample 0`, os.Getenv("CANDOR_BIN"))
	got := within("/init", script)
	contains(t, "with the processes in a child", got.out, "1\nexit 0\nexit 2\n", "Limited to 1 CPU by /.")
	contains(t, "2 CPUs where the container has 1", got.errOut, "cgroup / has a quota of 1 CPU")
	for _, group := range []string{"/candor", "/init", ""} {
		removeGroup(t, root+group)
	}
}

// removeGroup removes a group whose processes have ended.
func removeGroup(t *testing.T, dir string) {
	t.Helper()
	for unix.Rmdir(dir) == unix.EBUSY {
		if populated, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")); len(populated) > 0 {
			t.Fatalf("%s has processes: %s", dir, populated)
		}
		runtime.Gosched()
	}
}

func init() {
	roles["container"] = func(args []string) { fmt.Fprintln(os.Stderr, contain(args)); os.Exit(99) }
}

// contain executes a command in a group that it sees as the root of its cgroup namespace, or in a child of that group.
func contain(args []string) error {
	root, child, command := args[0], args[1], args[2:]
	enter := func(dir string) error {
		return os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0)
	}
	runtime.LockOSThread()
	err := enter(root)
	if err == nil {
		err = unix.Unshare(unix.CLONE_NEWCGROUP | unix.CLONE_NEWNS) // the root is the group of now
	}
	if err == nil {
		err = enter(root + child)
	}
	if err != nil {
		return err
	}
	return mountAndExecute(command)
}

func mountAndExecute(command []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
		return err
	}
	return syscall.Exec(command[0], command, os.Environ())
}
