package oci

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// usualDirs are the usual directories of programs. They are needed because Podman calls its runtime without a PATH.
var usualDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// find returns the path of a program in the PATH or in usualDirs.
func find(name string) (path string, err error) {
	path, err = exec.LookPath(name)
	if err == nil || strings.Contains(name, "/") {
		return path, err
	}
	for _, dir := range usualDirs {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// findRuntime returns the path of the real runtime: the requested runtime, otherwise runc or else crun. It searches the PATH and
// usualDirs.
func findRuntime(asked string) (string, error) {
	names := []string{"runc", "crun"}
	if asked != "" {
		names = []string{asked}
	}
	for _, name := range names {
		path, err := find(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
		if isSelf(path) {
			return "", fmt.Errorf("%s is candor itself; set CANDOR_RUNTIME to the real OCI runtime, such as /usr/bin/runc", path)
		}
		return path, nil
	}
	return "", fmt.Errorf("no OCI runtime (%.200s); install runc or crun in the PATH or /usr/bin, or set CANDOR_RUNTIME to the path of one", asked)
}

// isSelf reports whether a file is this program. As the real runtime, this program would call itself without end.
func isSelf(path string) bool {
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	other, err := os.Stat(path)
	return err == nil && os.SameFile(self, other)
}

// become replaces this process by the real runtime. It returns only on an error.
func become(path string, args []string) error {
	err := syscall.Exec(path, append([]string{path}, args...), os.Environ())
	return fmt.Errorf("cannot execute %s: %w", path, err)
}

// call runs the real runtime with this process's open files, including inherited files that candor does not use. It waits for the
// runtime's end and returns the exit code. The kernel kills the runtime when this process dies; call kills it when ctx is done.
func call(ctx context.Context, path string, args []string, stdin *os.File) (code int, err error) {
	runtime.LockOSThread() // the child's parent-death signal depends on this thread
	defer runtime.UnlockOSThread()
	line := append([]string{path}, args...)
	if os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) { // the sockets from an engine belong to the process with this ID
		path, line = "/bin/sh", append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh"}, line...)
	}
	process, err := os.StartProcess(path, line, &os.ProcAttr{
		Files: []*os.File{stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("cannot execute %s: %w", path, err)
	}
	defer context.AfterFunc(ctx, func() { process.Kill() })()
	state, err := process.Wait()
	if err != nil {
		return 0, err
	}
	if ctx.Err() != nil && !state.Success() {
		return 0, fmt.Errorf("%s killed: %w", path, context.Cause(ctx))
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}
